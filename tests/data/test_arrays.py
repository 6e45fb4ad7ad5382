"""Data sets from arrays: what is converted, what is kept, what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from fedtrip.data import from_arrays, from_clients
from fedtrip.errors import UserError

RANDOM = np.random.default_rng(0)
LABELS = np.array([0, 1, 2, 1])


def build(x: Any = None, y: Any = LABELS, x_test: Any = None, y_test: Any = None, **options: Any) -> Any:
    x = np.zeros((4, 3), np.float32) if x is None else x
    return from_arrays(x, y, x[:2] if x_test is None else x_test, [0, 1] if y_test is None else y_test, **options)


TYPES = {"uint8": torch.uint8, "int32": torch.int64, "uint16": torch.int64}


@pytest.mark.parametrize("shape", [(4, 3), (4, 5, 6), (4, 2, 5, 6), (4, 5, 3), (4, 1, 2, 3, 2)])
@pytest.mark.parametrize("dtype", ["uint8", "float64", "float16", "int32", "uint16", "bool", ">f4"])
def test_shapes_and_types(shape: tuple[int, ...], dtype: str) -> None:
    values = RANDOM.integers(0, 2, shape).astype(dtype)
    built = build(values)
    is_grey_image = dtype == "uint8" and len(shape) == 3
    assert built.sample_shape == ((1, *shape[1:]) if is_grey_image else shape[1:])
    assert built.x_train.dtype == TYPES.get(dtype, torch.float32)
    np.testing.assert_array_equal(built.x_train.numpy().reshape(shape), values)
    assert built.y_train.dtype == torch.int64


def test_integers_are_token_ids_and_never_normalised() -> None:
    ids = np.array([[3, 0, 9], [1, 1, 2], [7, 5, 0], [0, 0, 0]])
    built = build(ids)
    assert built.normalised(built.x_train) is built.x_train
    assert (built.mean, built.std, built.inputs.vocabulary) == ((0.0,), (1.0,), 10)
    with pytest.raises(UserError, match=r"mean is 2\.0 and std is 1\.0, but integers and several inputs are never"):
        build(ids, mean=2.0, std=1.0)


def test_several_inputs_are_kept_as_they_are() -> None:
    ids, mask, ages = np.arange(12).reshape(4, 3), np.ones((4, 3), bool), np.array([20.0, 30.0, 40.0, 50.0])
    by_name = build({"ids": ids, "mask": mask, "age": ages}, x_test={"ids": ids[:2], "mask": mask[:2], "age": ages[:2]})
    assert [x.dtype for x in by_name.x_train.values()] == [torch.int64, torch.bool, torch.float32]
    assert by_name.normalised(by_name.x_train)["age"].tolist() == ages.tolist()
    by_place = build((ids, ages), x_test=(ids[:2], ages[:2]))
    assert [tuple(x.shape) for x in by_place.x_test] == [(2, 3), (2,)]
    assert len({by_name.sha256(), by_place.sha256(), build(ids).sha256()}) == 3
    with pytest.raises(UserError, match=r"x_train has inputs of 3 and 4 samples"):
        build((ids, ages[:3]), x_test=(ids, ages))
    with pytest.raises(UserError, match=r"x_train\['age'\] has values that are NaN"):
        build({"ids": ids, "age": ages * np.nan}, x_test={"ids": ids, "age": ages})
    with pytest.raises(UserError, match="x_test holds samples of 0: shape"):
        build((ids, ages), x_test=(ids, mask))


@pytest.mark.parametrize(
    ("kind", "y", "dtype", "classes"),
    [
        ("labels", [[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]], torch.bool, 3),
        ("numbers", [[0.5, 1.5], [1.0, 2.0], [0.0, 0.0], [3.0, 1.0]], torch.float32, 0),
        ("tokens", [[4, -100], [0, 1], [2, 2], [-100, -100]], torch.int64, 5),
    ],
)
def test_targets_are_what_the_task_wants(kind: Any, y: Any, dtype: torch.dtype, classes: int) -> None:
    built = build(y=np.array(y), y_test=np.array(y)[:2], targets=kind)
    assert (built.y_train.dtype, built.targets, built.classes) == (dtype, kind, classes)


@pytest.mark.parametrize(
    ("kind", "y", "fault"),
    [
        ("labels", [0, 1, 0, 1], r"must be \(4, labels\)"),
        ("labels", [[0, 2]] * 4, "has the value 2; accepted: 0 and 1"),
        ("tokens", [0, 1, 0, 1], r"must be \(4, places\)"),
        ("tokens", [[0, -1]] * 4, "has the token -1; accepted: tokens from 0, or -100"),
        ("tokens", [[0.5, 1.0]] * 4, r"must be \(4, places\)"),
        ("numbers", [1, 2, 3, 4], "holds integers, of type int64; accepted: floating-point targets"),
        ("classes", [[0, 1]] * 4, r"must be \(4,\)"),
    ],
)
def test_targets_of_another_kind_are_refused(kind: Any, y: Any, fault: str) -> None:
    with pytest.raises(UserError, match=f"y_train .*{fault}"):
        build(y=np.array(y), targets=kind)


def test_a_column_of_numbers_is_no_class() -> None:
    x, y = np.zeros((60, 2)), np.arange(60) % 31
    with pytest.raises(UserError, match=r"y_train would be 31 classes for 60 samples; .*task regression"):
        from_arrays(x, y, x, y)
    assert from_arrays(x, y, x, y, classes=31).classes == 31
    assert from_arrays(x, y % 30, x, y % 30).classes == 30


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8, torch.int64])
def test_torch_tensors_are_accepted(dtype: torch.dtype) -> None:
    values = torch.arange(12).reshape(4, 3).to(dtype)
    built = from_arrays(values, torch.tensor(LABELS), values, torch.tensor(LABELS, dtype=torch.uint8))
    assert torch.equal(built.x_train, values.to(built.x_train.dtype))
    assert build(torch.ones(4, 3, requires_grad=True)).x_train.requires_grad is False


def test_strided_and_read_only_arrays_are_accepted() -> None:
    values = RANDOM.random((8, 3, 5)).astype(np.float32)
    strided = values[::-2].swapaxes(1, 2)
    np.testing.assert_array_equal(build(strided).x_train.numpy(), strided)
    fixed = np.zeros((4, 3), np.float32)
    fixed.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = build(fixed)
    built.x_train.add_(1)
    assert not fixed.any()


def test_the_digest_depends_on_values_not_on_layout() -> None:
    values = RANDOM.random((4, 6))
    assert build(values).sha256() == build(np.asfortranarray(values)).sha256()
    assert build(values).sha256() != build(values + 1e-3).sha256()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    values = np.zeros((4, 3))
    values[2, 1] = bad
    with pytest.raises(UserError, match=r"x_train has values .* in 1 of 4 samples, first in sample 2"):
        build(values, x_test=np.zeros((2, 3)))
    with pytest.raises(UserError, match="x_test has values"):
        build(np.zeros((4, 3)), x_test=values, y_test=LABELS)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"x": np.zeros(4)}, r"x_train has the shape \(4,\)"),
        ({"x": np.zeros((0, 3)), "y": []}, "it is empty"),
        ({"x": np.zeros((4, 0))}, "it is empty"),
        ({"x_test": np.zeros((0, 3)), "y_test": []}, "x_test .* it is empty"),
        ({"x": np.array([["a"]] * 4)}, "numbers are needed"),
        ({"x": np.array([[None]] * 4)}, "numbers are needed"),
        ({"x": np.zeros((4, 3), complex)}, "numbers are needed"),
        ({"x_test": np.zeros((2, 4), np.float32)}, r"x_test holds samples of shape \(4,\)"),
        ({"x_test": np.zeros((2, 3), np.uint8)}, "type uint8, but x_train .* type float32"),
        ({"y": [0, 1, 2]}, "y_train has 3 entries for 4 samples"),
        ({"y": [[0], [1], [2], [1]]}, r"must be \(4,\)"),
        ({"y": [0, 1, -1, 1]}, "the label -1"),
        ({"y": [0, 1, 2.0, 1]}, "no integers; accepted: class numbers from 0, or task regression"),
        ({"y": [0, 1, np.nan, 1]}, "no integers"),
        ({"y": [0, 1, 10**9, 1]}, "at most 1,000,000 classes"),
        ({"y": np.array([0, 1, 2**63, 1], np.uint64)}, "too large"),
        ({"y": ["a", "b", "c", "d"]}, "numbers are needed"),
        ({"classes": 2}, "labels go up to 2; give at least 3"),
        ({"mean": [0.0, 0.0]}, "mean has 2 numbers"),
        ({"mean": float("nan")}, "not finite"),
        ({"std": 0.0}, "above 0"),
        ({"client_train": [0, 1, 2]}, r"client_train has the shape \(3,\); it must be \(4,\)"),
        ({"client_train": [0, 2, 2, 0]}, "goes up to client 2, but client 1 has no sample"),
        ({"client_train": [1, 1, 2, 1]}, "client 0 has no sample"),
        ({"client_train": [-1, 0, 1, 1]}, "client -1"),
        ({"client_train": [0.5, 0, 1, 1]}, "not an integer"),
    ],
)
def test_refuses(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        build(**options)


def test_classes_count_both_sets_and_can_be_more() -> None:
    assert build().classes == 3
    assert build(y_test=[0, 7]).classes == 8
    assert build(classes=20).classes == 20


def test_clients_are_joined_in_order() -> None:
    pairs = [(np.full((n, 2), float(client)), np.full(n, client)) for client, n in enumerate([2, 1, 3])]
    built = from_clients(pairs, (np.zeros((1, 2)), [0]), name="mine")
    assert built.client_train is not None
    assert built.client_train.tolist() == [0, 0, 1, 2, 2, 2]
    assert built.x_train[:, 0].tolist() == [0, 0, 1, 2, 2, 2]
    assert (built.clients, built.classes, built.name) == (3, 3, "mine")


def test_clients_may_have_test_sets_of_their_own() -> None:
    pairs = [(np.full((n, 2), float(client)), np.full(n, client)) for client, n in enumerate([2, 1])]
    built = from_clients(pairs, pairs[::-1])
    assert built.client_test is not None
    assert built.client_test.tolist() == [0, 1, 1]
    with pytest.raises(UserError, match="test has 1 pairs for 2 clients"):
        from_clients(pairs, pairs[:1])
    with pytest.raises(UserError, match="client_test is given without client_train"):
        build(client_test=[0, 0])


def test_a_bad_client_is_named() -> None:
    good = (np.zeros((2, 2)), [0, 1])
    test = (np.zeros((1, 2)), [0])
    with pytest.raises(UserError, match="no clients"):
        from_clients([], test)
    with pytest.raises(UserError, match=r"x of client 1 .* it is empty"):
        from_clients([good, (np.zeros((0, 2)), [])], test)
    with pytest.raises(UserError, match="y of client 1 has 1 entries"):
        from_clients([good, (np.zeros((2, 2)), [0])], test)
    with pytest.raises(UserError, match=r"x of client 1 holds samples of shape \(3,\)"):
        from_clients([good, (np.zeros((2, 3)), [0, 1])], test)
