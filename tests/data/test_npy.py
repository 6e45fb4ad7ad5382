"""npy folders and memory-mapped arrays: the same data as in memory, in place, in every process; headers are checked."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.data import from_arrays, load_dataset
from fedtrip.engines.handover import share_data, shared_dataset
from fedtrip.engines.shared import SharedBlock
from fedtrip.errors import UserError

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "x_train": RANDOM.normal(size=(60, 3, 4)).astype(np.float32),
    "y_train": np.arange(60) % 3,
    "x_test": RANDOM.normal(size=(12, 3, 4)).astype(np.float32),
    "y_test": np.arange(12) % 3,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(tmp_path / "mine", **ARRAYS)


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def lies_in(tensor: torch.Tensor, path: Path) -> bool:
    """Whether the kernel says that the memory of this tensor is that file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= tensor.data_ptr() < end:
            return line.endswith(str(path))
    return False


def test_a_folder_is_the_data_set_of_its_arrays_in_place(folder: Path) -> None:
    made = load_dataset(f"npy:{folder}")
    assert made.name == "npy:mine"
    assert made.sha256() == from_arrays(**ARRAYS).sha256()
    assert lies_in(made.x_train, folder / "x_train.npy")
    assert lies_in(made.y_train, folder / "y_train.npy")
    assert not lies_in(made.normalised(made.x_test), folder / "x_test.npy")


def test_clients_and_several_inputs_are_files_of_their_own(tmp_path: Path) -> None:
    ids, mask = np.arange(8).reshape(4, 2), np.array([[True, False]] * 4)
    folder = saved(
        tmp_path / "mine",
        **{"x_train.ids": ids, "x_train.mask": mask, "x_test.ids": ids[:2], "x_test.mask": mask[:2]},
        y_train=np.array([0, 1, 0, 1]),
        y_test=np.array([0, 1]),
        client_train=np.array([0, 0, 1, 1]),
        client_test=np.array([0, 1]),
    )
    made = load_dataset(f"npy:{folder}")
    assert {name: tensor.tolist() for name, tensor in made.x_train.items()} == {
        "ids": ids.tolist(),
        "mask": mask.tolist(),
    }
    assert (made.clients, made.client_test.tolist()) == (2, [0, 1])
    assert lies_in(made.x_train["ids"], folder / "x_train.ids.npy")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_memory_maps_from_python_are_used_in_place_and_never_written(tmp_path: Path, dtype: type) -> None:
    x = np.arange(120).reshape(10, 3, 4).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    before = (tmp_path / "x.npy").read_bytes()
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    made = from_arrays(mapped[2:], np.arange(8) % 2, mapped[:2], np.array([0, 1]))
    assert made.x_train.reshape(8, 3, 4).tolist() == x[2:].tolist()
    assert lies_in(made.x_train, tmp_path / "x.npy")
    made.x_train.zero_()  # a private copy of the pages
    assert (tmp_path / "x.npy").read_bytes() == before


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(lambda path: np.load(path, mmap_mode="c"), id="may have been changed in memory"),
        pytest.param(lambda path: np.load(path, mmap_mode="r+"), id="may be changed"),
        pytest.param(lambda path: np.load(path, mmap_mode="r")[::2], id="every second sample"),
        pytest.param(lambda path: np.load(path, mmap_mode="r").astype(np.float64), id="converted"),
        pytest.param(lambda path: np.load(path), id="no map"),
    ],
)
def test_what_does_not_lie_unchanged_in_a_file_is_copied_for_workers(tmp_path: Path, array) -> None:
    np.save(tmp_path / "x.npy", ARRAYS["x_train"])
    x = array(tmp_path / "x.npy")
    made = from_arrays(x, np.arange(len(x)) % 2, ARRAYS["x_test"], ARRAYS["y_test"])
    assert made.file_of(made.x_train) is None
    shared = shared_dataset(share_data(made, SharedBlock()))
    assert shared.x_train.tolist() == np.asarray(x, np.float32).tolist()


def test_big_endian_and_column_order_are_converted(tmp_path: Path) -> None:
    x = ARRAYS["x_train"]
    changed = {**ARRAYS, "x_train": np.asfortranarray(x.astype(">f4")), "y_train": ARRAYS["y_train"].astype(">i2")}
    assert load_dataset(f"npy:{saved(tmp_path / 'mine', **changed)}").sha256() == from_arrays(**ARRAYS).sha256()


def test_other_processes_map_the_same_files(folder: Path) -> None:
    made = load_dataset(f"npy:{folder}")
    shared = share_data(made, SharedBlock())
    assert sorted(shared.files) == ["x_test 0", "x_train 0", "y_test", "y_train"]
    again = shared_dataset(shared)
    assert again.sha256() == made.sha256()
    assert lies_in(again.x_train, folder / "x_train.npy")
    assert shared_dataset(share_data(made.with_channel(), SharedBlock())).x_train.shape == (60, 1, 3, 4)


def test_a_part_of_an_array_lies_in_a_part_of_the_file(folder: Path) -> None:
    made = load_dataset(f"npy:{folder}")
    span = made.file_of(made.x_train[10:20])
    assert span.tensor().tolist() == ARRAYS["x_train"][10:20].tolist()
    assert made.file_of(made.x_train[:, 1]) is None
    assert made.file_of(made.x_train.clone()) is None


def test_a_file_that_changed_is_refused(folder: Path) -> None:
    shared = share_data(load_dataset(f"npy:{folder}"), SharedBlock())
    os.utime(folder / "x_train.npy", ns=(1, 1))
    with pytest.raises(UserError, match=r"x_train\.npy: was changed while a run read it"):
        shared_dataset(shared)
    (folder / "x_train.npy").unlink()
    with pytest.raises(UserError, match=r"x_train\.npy: cannot be read any more"):
        shared_dataset(shared)


def test_runs_on_files_have_the_bits_of_runs_on_arrays(folder: Path) -> None:
    experiment = fedtrip.Experiment(rounds=2, clients=3, per_round=2)
    in_memory = fedtrip.run(experiment, data=ARRAYS, workers=1)
    for workers in (1, 2):
        run = fedtrip.run(experiment.but(dataset=f"npy:{folder}"), workers=workers)
        assert run.model_sha256 == in_memory.model_sha256


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x_train", b"", r"x_train\.npy: is damaged"),
        ("x_train", b"not an array at all", r"x_train\.npy: is damaged"),
        ("x_train", "pickle", r"x_train holds pickled objects, which are never loaded"),
        ("x_train", "text", r"x_train holds values of type <U1"),
        ("x_train", "short", r"promises 480 bytes, but 479 are stored"),
        ("x_train", "long", r"promises 480 bytes, but 481 are stored"),
        ("y_test", "short", r"the header of y_test promises 480 bytes, but 479 are stored"),
    ],
)
def test_headers_are_checked_before_anything_is_mapped(folder: Path, name: str, content: object, told: str) -> None:
    if not isinstance(content, bytes):
        stream = io.BytesIO()
        held = {"pickle": np.array([{}], dtype=object), "text": np.array(["a"])}.get(str(content), np.zeros(60))
        np.save(stream, held, allow_pickle=True)
        content = {"short": stream.getvalue()[:-1], "long": stream.getvalue() + b"0"}.get(content, stream.getvalue())
    (folder / f"{name}.npy").write_bytes(content)
    with pytest.raises(UserError, match=told):
        load_dataset(f"npy:{folder}")


def test_missing_files_and_bad_values_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: there is no such folder"):
        load_dataset(f"npy:{tmp_path / 'nowhere'}")
    x = ARRAYS["x_train"].copy()
    x[[7, 9], 1, 2] = np.nan
    np.save(folder / "x_train.npy", x)
    with pytest.raises(
        UserError, match=r"mine: x_train has values that are NaN.* in 2 of 60 samples, first in sample 7"
    ):
        load_dataset(f"npy:{folder}")
    (folder / "y_test.npy").unlink()
    with pytest.raises(UserError, match=r"mine: lacks y_test; it holds x_test, x_train, y_train"):
        load_dataset(f"npy:{folder}")
