"""npz files: bad archives, pickled objects and lying headers are refused before memory is asked for."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtrip.data import load_dataset
from fedtrip.data.npz import read_npz
from fedtrip.errors import UserError


def arrays() -> dict[str, Any]:
    x = np.arange(24, dtype=np.float64).reshape(4, 2, 3)
    return {"x_train": x, "y_train": np.array([0, 1, 0, 1]), "x_test": x[:2], "y_test": np.array([0, 1])}


def with_header(shape: tuple[int, ...], body: bytes = b"", descr: str = "|u1") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue() + body


def replace_member(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path) as old:
        members = {member: old.read(member) for member in old.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member, old_content in members.items():
            new.writestr(member, content if member == f"{name}.npy" else old_content)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_loads_what_was_saved(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "mine.npz"
    save(path, client_train=[0, 0, 1, 1], other=np.zeros(3), **arrays())
    built = load_dataset(f"npz:{path}")
    assert (built.name, built.sample_shape, built.classes, built.clients) == ("npz:mine", (2, 3), 2, 2)
    assert built.x_train.flatten().tolist() == list(range(24))
    assert built.mean == (11.5,)
    assert load_dataset(f"npz:{path}", mean=1.0, std=2.0).mean == (1.0,)


def test_names_that_are_missing_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=np.zeros((1, 1)), labels=np.zeros(1))
    with pytest.raises(UserError, match=r"mine\.npz: lacks y_train, x_test, y_test; it holds x_train, labels"):
        read_npz(path)


def test_a_fault_within_the_arrays_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays() | {"y_test": np.array([0])})
    with pytest.raises(UserError, match=r"mine\.npz: y_test has 1 entries for 2 samples"):
        load_dataset(f"npz:{path}")


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_npz(tmp_path / "absent.npz")
    path = tmp_path / "one.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(UserError, match=r"not an \.npz file"):
        read_npz(path)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    path = tmp_path / "mine.npz"
    np.savez(path, **arrays() | {"y_train": np.array([Trap()], dtype=object)})
    with pytest.raises(UserError, match="y_train holds pickled objects"):
        read_npz(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (with_header((10**12,)), "promises 1,000,000,000,000 bytes, but 0 are stored"),
        (with_header((4,), b"abcde"), "promises 4 bytes, but 5"),
        (with_header((-4,), b"abcd"), "impossible shape"),
        (b"not an array", "damaged"),
        (b"", "damaged"),
        (with_header((1,), b"abcd", "<U1"), "type <U1"),
    ],
)
def test_lying_headers_are_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays())
    replace_member(path, "x_train", content)
    with pytest.raises(UserError, match=fault):
        read_npz(path)


def test_a_zip_bomb_is_refused_by_its_stated_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtrip.data.memory.LARGEST_ARRAY", 10**6)
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, **arrays() | {"x_train": np.zeros((4, 10**6), np.uint8)})
    assert path.stat().st_size < 10**5
    with pytest.raises(UserError, match="all arrays together would take 4,0"):
        read_npz(path)


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), packed=st.booleans())
def test_any_changed_byte_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: float, value: int, packed: bool
) -> None:
    stream = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(stream, **arrays())
    content = bytearray(stream.getvalue())
    content[int(place * len(content))] = value
    path = tmp_path_factory.getbasetemp() / "changed.npz"
    path.write_bytes(content)
    try:
        names = set(read_npz(path))
    except UserError as error:
        refusal = str(error)
    else:
        refusal = str(path)
        assert names == set(arrays())
    assert str(path) in refusal


def test_a_message_does_not_quote_the_file(tmp_path: Path) -> None:
    """zipfile quotes all the bytes of a name that it does not understand."""
    path = tmp_path / "data.npz"
    np.savez(path, x_train=np.zeros((50, 50)), y_train=np.zeros(50), x_test=np.zeros((1, 50)), y_test=np.zeros(1))
    content = bytearray(path.read_bytes())
    content[27] = 8  # the length of the first name, in the header before it
    path.write_bytes(content)
    with pytest.raises(UserError, match="is damaged") as refused:
        read_npz(path)
    assert len(str(refused.value)) < 300 + len(str(path))
