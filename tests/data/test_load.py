"""Loading by name: small files laid out as the publishers do, and the real ones where FEDTRIP_DATA has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedtrip.data import find_set, known_set, load_dataset, verify
from fedtrip.errors import UserError


def test_digits() -> None:
    digits = load_dataset("digits")
    assert digits.x_train.shape == (1437, 1, 8, 8)
    assert digits.x_test.shape == (360, 1, 8, 8)
    assert digits.x_train.dtype == torch.float32
    assert torch.bincount(digits.y_test).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]  # in proportion
    seen = digits.normalised(digits.x_train)
    assert seen.mean().item() == pytest.approx(0, abs=1e-5)
    assert seen.std().item() == pytest.approx(1, abs=1e-3)
    assert digits.sha256() == load_dataset("digits").sha256()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST/raw"), ("fashion-mnist", "FashionMNIST/raw")])
def test_mnist_and_fashion_mnist(
    tmp_path: Path, write_idx_set: Callable[..., Any], name: str, folder: str, packed: bool
) -> None:
    arrays = write_idx_set(tmp_path / folder, packed=packed)
    loaded = load_dataset(name, tmp_path)
    np.testing.assert_array_equal(loaded.x_train[:, 0].numpy(), arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(loaded.y_test.numpy(), arrays["t10k-labels-idx1-ubyte"])
    assert loaded.x_train.dtype == torch.uint8
    assert (loaded.name, loaded.classes, loaded.mean, loaded.std) == (name, 10, (0.1307,), (0.3081,))
    assert load_dataset(name, tmp_path, mean=0.5).mean == (0.5,)
    assert load_dataset(name, tmp_path, mean=0.5).std == (0.3081,)


@pytest.mark.parametrize(
    ("name", "split", "classes", "first_label"),
    [
        ("emnist", "balanced", 47, 0),
        ("emnist:balanced", "balanced", 47, 0),
        ("emnist:letters", "letters", 26, 1),
        ("emnist:byclass", "byclass", 62, 0),
        ("emnist:bymerge", "bymerge", 47, 0),
        ("emnist:digits", "digits", 10, 0),
        ("emnist:mnist", "mnist", 10, 0),
    ],
)
def test_emnist_is_turned_upright_and_counted_from_0(
    tmp_path: Path, write_idx_set: Callable[..., Any], name: str, split: str, classes: int, first_label: int
) -> None:
    arrays = write_idx_set(tmp_path / "EMNIST/raw", prefix=f"emnist-{split}-", test="test", first_label=first_label)
    loaded = load_dataset(name, tmp_path)
    stored = arrays["train-images-idx3-ubyte"]
    np.testing.assert_array_equal(loaded.x_train[:, 0].numpy(), stored.transpose(0, 2, 1))
    np.testing.assert_array_equal(loaded.y_train.numpy(), arrays["train-labels-idx1-ubyte"] - first_label)
    assert (loaded.classes, loaded.mean, loaded.std) == (classes, (0.5,), (0.5,))
    assert loaded.x_train.is_contiguous()


@pytest.mark.parametrize(("name", "classes", "first_label"), [("mnist", 11, 0), ("emnist:letters", 26, 0)])
def test_labels_beyond_the_classes_are_refused(
    tmp_path: Path, write_idx_set: Callable[..., Any], name: str, classes: int, first_label: int
) -> None:
    known = known_set(name)
    letters = {"prefix": "emnist-letters-", "test": "test"} if "letters" in name else {}
    write_idx_set(tmp_path / known.folder, classes=classes, first_label=first_label, **letters)
    wrong = 10 if name == "mnist" else 0
    with pytest.raises(UserError, match=rf"{name} has labels from .*labels-idx1-ubyte\.gz has the label {wrong}"):
        load_dataset(name, tmp_path)


def test_cifar_10(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    records = np.random.default_rng(0).integers(0, 256, (6, 4, 3073), np.uint8)
    records[:, :, 0] %= 10
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for name, content in zip(names, records, strict=True):
        (folder / name).write_bytes(content.tobytes())
    loaded = load_dataset("cifar-10", tmp_path)
    assert loaded.x_train.shape == (20, 3, 32, 32)
    np.testing.assert_array_equal(loaded.x_test.numpy().reshape(4, 3072), records[5, :, 1:])
    np.testing.assert_array_equal(loaded.y_train.numpy(), records[:5, :, 0].reshape(-1))
    assert loaded.mean == (0.485, 0.456, 0.406)
    records[5, 0, 0] = 10
    (folder / "test_batch.bin").write_bytes(records[5].tobytes())
    with pytest.raises(UserError, match=r"test_batch\.bin has the label 10"):
        load_dataset("cifar-10", tmp_path)


def test_an_idx_folder_of_ones_own(tmp_path: Path, write_idx_set: Callable[..., Any]) -> None:
    arrays = write_idx_set(tmp_path / "mine", classes=4)
    loaded = load_dataset(f"idx:{tmp_path / 'mine'}")
    stored = arrays["train-images-idx3-ubyte"]
    np.testing.assert_array_equal(loaded.x_train[:, 0].numpy(), stored)
    assert loaded.classes == 4
    assert loaded.mean[0] == pytest.approx(stored.mean() / 255)
    (tmp_path / "mine" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match=r"mine: lacks t10k-labels-idx1-ubyte\[.gz\]"):
        load_dataset(f"idx:{tmp_path / 'mine'}")


def test_cifar_100(tmp_path: Path) -> None:
    """With files of the publisher's form, made here: the real ones are not at hand."""
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name, count in (("train.bin", 6), ("test.bin", 3)):
        records = np.zeros((count, 3074), np.uint8)
        records[:, 0] = 19  # the coarse label
        records[:, 1] = 99 - np.arange(count)
        records[:, 2:] = np.arange(count)[:, None]
        (folder / name).write_bytes(records.tobytes())
    loaded = load_dataset("cifar-100", tmp_path)
    assert (loaded.sample_shape, loaded.classes) == ((3, 32, 32), 100)
    assert loaded.y_train.tolist() == [99, 98, 97, 96, 95, 94]
    assert loaded.x_test[2].unique().tolist() == [2]
    assert loaded.mean == pytest.approx((2.5 / 255,) * 3)
    assert [check.status for check in verify("cifar-100", tmp_path)] == ["no published checksum"] * 2
    (folder / "test.bin").write_bytes(bytes(3073))
    assert verify("cifar-100", tmp_path)[1].status == "damaged"
    (folder / "test.bin").write_bytes(bytes([0, 100]) + bytes(3072))
    with pytest.raises(UserError, match=r"cifar-100 has labels from 0 to 99, but .*test\.bin has the label 100"):
        load_dataset("cifar-100", tmp_path)


@pytest.mark.parametrize("spec", ["idx:", "npz", "npz:"])
def test_a_place_must_be_named(spec: str) -> None:
    with pytest.raises(UserError, match=r"names no place; write (idx:FOLDER|npz:FILE)"):
        load_dataset(spec)


@pytest.mark.parametrize(("spec", "suggested"), [("minst", "mnist"), ("emnist:leters", "emnist:letters")])
def test_an_unknown_name_suggests_a_known_one(spec: str, suggested: str) -> None:
    with pytest.raises(
        UserError, match=rf"did you mean '{suggested}'\?.*npz:FILE, npy:FOLDER, idx:FOLDER, table:FILE, hf:FOLDER"
    ):
        load_dataset(spec)


def test_a_given_folder_without_the_set_is_an_error_not_a_download(
    tmp_path: Path, write_idx_set: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=rf"not in {tmp_path}/MNIST/raw .*fedtrip data get mnist --data-dir {tmp_path}"):
        load_dataset("mnist", tmp_path)
    write_idx_set(tmp_path / "MNIST/raw")
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match=r"\(missing: t10k-labels-idx1-ubyte\)"):
        load_dataset("mnist", tmp_path)
    with pytest.raises(UserError, match=r"'emnist47' has no publisher"):
        load_dataset("emnist47", tmp_path)


def real(name: str) -> Any:
    """The real set, or a skipped test: these are never downloaded by a test."""
    if "FEDTRIP_DATA" not in os.environ:
        pytest.skip("needs the real files: set FEDTRIP_DATA to a folder that holds them")
    if find_set(known_set(name), Path(os.environ["FEDTRIP_DATA"])) is None:
        pytest.skip(f"{name} is not in the folder that FEDTRIP_DATA names")
    return load_dataset(name)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "emnist", "emnist47", "cifar-10"])
def test_the_real_set_is_what_the_catalogue_says(name: str) -> None:
    loaded, known = real(name), known_set(name)
    assert loaded.x_train.shape == (known.train, *known.shape)
    assert loaded.x_test.shape == (known.test, *known.shape)
    assert loaded.x_train.dtype == torch.uint8
    assert loaded.y_train.unique().tolist() == list(range(known.classes))


def test_the_real_mnist_has_the_mean_it_is_normalised_with() -> None:
    mnist = real("mnist")
    assert torch.bincount(mnist.y_train).tolist()[:3] == [5923, 6742, 5958]
    seen = mnist.normalised(mnist.x_train)
    assert seen.mean().item() == pytest.approx(0, abs=1e-3)
    assert seen.std().item() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["emnist", "emnist47"])
def test_the_real_digits_of_emnist_stand_upright(name: str) -> None:
    def mean_images(data: Any) -> Tensor:
        return torch.stack([data.x_train[data.y_train == digit, 0].float().mean(dim=0) for digit in range(10)])

    def correlation(a: Tensor, b: Tensor) -> float:
        return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])

    expected, found = mean_images(real("mnist")), mean_images(real(name))
    for digit in (2, 3, 4, 5, 7, 9):  # a 0, 1, 6 or 8 may look much the same when transposed
        assert correlation(expected[digit], found[digit]) > correlation(expected[digit], found[digit].T) + 0.1
