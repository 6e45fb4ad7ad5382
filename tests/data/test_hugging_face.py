"""Folders saved by Hugging Face's datasets: columns with the types that they have, and refusals by column."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.data import from_arrays, load_dataset
from fedtrip.errors import UserError

datasets = pytest.importorskip("datasets", reason="needs pip install 'fedtrip[hf]'")
Array2D, ClassLabel, Image, Value = (getattr(datasets, name) for name in ("Array2D", "ClassLabel", "Image", "Value"))


@pytest.fixture(autouse=True)
def _quiet():
    datasets.disable_progress_bars()


def made(columns, **features):
    plain = datasets.Dataset.from_dict(columns)
    kinds = plain.features.copy()
    kinds.update(features)
    return datasets.Dataset.from_dict(columns, features=kinds)


def saved(folder: Path, train, test=None) -> str:
    stored = train if test is None else datasets.DatasetDict(train=train, test=test)
    stored.save_to_disk(str(folder))
    return str(folder)


NUMBERS = {"x": [[float(i), 0.5] for i in range(10)], "label": [i % 2 for i in range(10)]}


def test_lists_of_numbers_are_arrays(tmp_path: Path) -> None:
    place = saved(tmp_path / "mine", made(NUMBERS), made({name: column[:3] for name, column in NUMBERS.items()}))
    x, y = np.array(NUMBERS["x"], np.float32), np.array(NUMBERS["label"])
    built = load_dataset(f"hf:{place}")
    assert built.name == "hf:mine"
    assert built.sha256() == from_arrays(x, y, x[:3], y[:3]).sha256()


def test_pictures_are_pixels_and_class_labels_keep_their_names(tmp_path: Path, capsys) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), np.uint8)
    grey = pixels[..., 0]
    for images in (pixels, grey):
        rows = made(
            {"image": list(images), "label": [2, 0, 2, 0]},
            image=Image(),
            label=ClassLabel(names=["cat", "cow", "dog"]),
        )
        place = saved(tmp_path / str(images.ndim), rows, rows)
        built = load_dataset(f"hf:{place}")
        wanted = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
        assert built.x_train.tolist() == wanted.tolist()
        assert built.x_train.dtype == torch.uint8
        assert (built.classes, built.class_names, built.y_train.tolist()) == (3, ("cat", "cow", "dog"), [2, 0, 2, 0])
        assert "classes: 0 = cat, 1 = cow, 2 = dog" in capsys.readouterr().err


def test_several_columns_are_inputs_by_name(tmp_path: Path) -> None:
    rows = made({"input_ids": [[1, 2], [3, 0]], "attention_mask": [[1, 1], [1, 0]], "labels": [0, 1]})
    built = load_dataset(f"hf:{saved(tmp_path / 'mine', rows, rows)}")
    assert {name: tensor.tolist() for name, tensor in built.x_train.items()} == {
        "input_ids": [[1, 2], [3, 0]],
        "attention_mask": [[1, 1], [1, 0]],
    }
    one = load_dataset(f"hf:{tmp_path / 'mine'}?inputs=input_ids")
    assert one.x_train.tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize(
    ("dtype", "kept"), [("uint8", torch.uint8), ("int32", torch.int64), ("float64", torch.float32)]
)
def test_arrays_keep_their_shape_and_type(tmp_path: Path, dtype: str, kept: torch.dtype) -> None:
    x = np.arange(24).reshape(4, 2, 3).astype(dtype)
    rows = made({"x": list(x), "label": [0, 1, 0, 1]}, x=Array2D((2, 3), dtype))
    built = load_dataset(f"hf:{saved(tmp_path / 'mine', rows, rows)}")
    assert built.x_train.reshape(4, 2, 3).tolist() == x.tolist()
    assert built.x_train.dtype == kept


def test_one_split_is_divided_by_a_fixed_rule(tmp_path: Path) -> None:
    place = saved(tmp_path / "mine", made(NUMBERS))
    built = load_dataset(f"hf:{place}?test=0.3")
    assert built.x_test[:, 0].tolist() == [1.0, 2.0, 8.0]
    assert len(load_dataset(f"hf:{place}").x_test) == 2
    split = made({**NUMBERS, "writer": list("aabbbabbba")})
    built = load_dataset(f"hf:{saved(tmp_path / 'split', split)}?client=writer")
    assert (built.clients, built.client_names) == (2, ("a", "b"))
    assert sorted(built.client_test.tolist()) == [0, 1]


def test_targets_are_what_the_task_wants(tmp_path: Path) -> None:
    rows = made({"x": [[1.0], [2.0], [3.0]], "price": [1, 2, 3], "kind": ["b", "a", "b"], "marks": [[0, 1]] * 3})
    place = saved(tmp_path / "mine", rows, rows)
    numbers = load_dataset(f"hf:{place}?inputs=x&target=price", targets="numbers")
    assert (numbers.y_train.tolist(), numbers.y_train.dtype) == ([1.0, 2.0, 3.0], torch.float32)
    named = load_dataset(f"hf:{place}?inputs=x&target=kind")
    assert (named.y_train.tolist(), named.class_names) == ([1, 0, 1], ("a", "b"))
    assert load_dataset(f"hf:{place}?inputs=x&target=marks", targets="labels").y_train.dtype == torch.bool
    assert load_dataset(f"hf:{place}?inputs=x&target=marks", targets="tokens").y_train.tolist() == [[0, 1]] * 3
    with pytest.raises(UserError, match="column 'kind' holds text; accepted: numbers, or task classification"):
        load_dataset(f"hf:{place}?inputs=x&target=kind", targets="numbers")


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({}, "?target=lable", r"mine: train: column 'lable' is unknown; did you mean 'label'"),
        ({}, "?test=dev", r"test is dev, which has train, test; accepted: a split's name, or a share"),
        ({}, "?test=2", r"test is 2; accepted: a share above 0 and below 1"),
        ({}, "?x=x", r"option 'x' is unknown"),
        ({"text": ["a"] * 4}, "", r"column 'text' holds values of type string; .* name other columns by inputs="),
        ({"x": [[1], [1, 2], [1], [1]]}, "", r"column 'x' has lists of 1 and, in row 2, of 2; accepted: equal lengths"),
        ({"x": [[1], None, [1], [1]]}, "", r"column 'x' has no value in 1 places"),
        ({"x": [[1], [None], [1], [1]]}, "", r"column 'x' has no value in 1 places"),
        ({"x": [[[1, 2]], [[1, 2]], [[1, 2]], [[1]]]}, "", r"lists of 2 and, in row 4, of 1"),
        ({"label": [0.5, 1.5, 0.5, 1.5]}, "", r"'label' holds floating-point numbers; accepted: .* task regression"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, columns, options: str, told: str) -> None:
    rows = made({"x": [[1.0], [2.0], [3.0], [4.0]], "label": [0, 1, 0, 1], **columns})
    place = saved(tmp_path / "mine", rows, rows)
    with pytest.raises(UserError, match=told):
        load_dataset(f"hf:{place}{options}")


def test_pictures_of_two_sizes_are_refused_by_row(tmp_path: Path) -> None:
    images = [np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8)]
    rows = made({"image": images, "label": [0, 1]}, image=Image())
    with pytest.raises(UserError, match=r"column 'image', row 2: has the shape \(1, 2, 3\), but row 1 \(1, 2, 2\)"):
        load_dataset(f"hf:{saved(tmp_path / 'mine', rows, rows)}")


def test_splits_with_other_clients_or_columns_are_refused(tmp_path: Path) -> None:
    rows, other = made({**NUMBERS, "writer": ["a", "b"] * 5}), made({**NUMBERS, "writer": ["a", "c"] * 5})
    place = saved(tmp_path / "mine", rows, other)
    with pytest.raises(UserError, match="the client 'b' of column 'writer' is in one of the two splits only"):
        load_dataset(f"hf:{place}?client=writer")
    place = saved(tmp_path / "short", rows, made({"label": [0]}))
    with pytest.raises(UserError, match="short: test: lacks the column x"):
        load_dataset(f"hf:{place}?inputs=x")


def test_other_folders_and_names_are_refused(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UserError, match=r"cannot be read .*; accepted: a folder written by save_to_disk"):
        load_dataset(f"hf:{tmp_path}")
    with pytest.raises(UserError, match="nowhere: cannot be read"):
        load_dataset(f"hf:{tmp_path}/nowhere")
    rows = made(NUMBERS)
    place = saved(tmp_path / "damaged", rows)
    (next(Path(place).glob("*.arrow"))).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="damaged: cannot be read"):
        load_dataset(f"hf:{place}")
    monkeypatch.setattr(datasets, "load_dataset", _no_network)
    with pytest.raises(UserError, match=r"hf:nobody/nothing: is no folder here, and was not found on the hub \(no net"):
        load_dataset("hf:nobody/nothing")


def test_without_a_network_the_command_line_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedtrip", "run", "--dataset", "hf:nobody/nothing", "--out", "there"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "hf:nobody/nothing: is no folder here, and was not found on the hub (" in done.stderr
    assert not (tmp_path / "there").exists()


def _no_network(name: str):
    raise ConnectionError(f"no network for {name}")


def test_a_name_on_the_hub_is_read_as_a_folder_is(monkeypatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda name: {"owner/name": made(NUMBERS)}[name])
    built = load_dataset("hf:owner/name?test=0.3")
    assert (built.name, built.x_test[:, 0].tolist()) == ("hf:owner/name", [1.0, 2.0, 8.0])


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"install it with: pip install 'fedtrip\[hf\]'"):
        load_dataset(f"hf:{tmp_path}")


def test_a_run_on_it_has_the_bits_of_the_arrays(tmp_path: Path, monkeypatch) -> None:
    place = saved(tmp_path / "mine", made(NUMBERS), made(NUMBERS))
    monkeypatch.chdir(tmp_path)
    experiment = fedtrip.Experiment(rounds=1, clients=2, per_round=2)
    x, y = np.array(NUMBERS["x"], np.float32), np.array(NUMBERS["label"])
    run = fedtrip.run(experiment.but(dataset="hf:mine"), workers=1)
    assert run.model_sha256 == fedtrip.run(experiment, data=(x, y, x, y), workers=1).model_sha256
    assert run.experiment.dataset == f"hf:{place}"
