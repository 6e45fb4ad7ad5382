"""Files against their published checksums."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtrip.data import KNOWN_SETS, verify
from fedtrip.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, write_idx_set: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small MNIST whose checksums are in the catalogue."""
    folder = tmp_path / "MNIST/raw"
    write_idx_set(folder)
    known = KNOWN_SETS["mnist"]
    files = []
    for file in known.files:
        packed = (folder / f"{file.name}.gz").read_bytes()
        content = gzip.decompress(packed)
        checksums = {"md5": hashlib.md5(content).hexdigest(), "gz_md5": hashlib.md5(packed).hexdigest()}
        files.append(replace(file, size=len(content), **checksums))
    monkeypatch.setitem(KNOWN_SETS, "mnist", replace(known, train_files=tuple(files[:2]), test_files=tuple(files[2:])))
    return folder


def statuses(tmp_path: Path) -> list[str]:
    return [check.status for check in verify("mnist", tmp_path)]


def test_right_files_packed_unpacked_or_packed_anew(tmp_path: Path, folder: Path) -> None:
    assert statuses(tmp_path) == ["ok"] * 4
    packed = folder / "train-images-idx3-ubyte.gz"
    content = gzip.decompress(packed.read_bytes())
    packed.write_bytes(gzip.compress(content, compresslevel=1, mtime=1))
    assert verify("mnist", tmp_path)[0].detail == "compressed anew, same content"
    packed.unlink()
    (folder / "train-images-idx3-ubyte").write_bytes(content)
    assert statuses(tmp_path) == ["ok"] * 4


def test_every_fault_has_its_status(tmp_path: Path, folder: Path) -> None:
    images, labels, test_images, test_labels = (folder / f"{file.name}.gz" for file in KNOWN_SETS["mnist"].files)
    images.unlink()
    content = gzip.decompress(labels.read_bytes())
    labels.write_bytes(gzip.compress(content[:-1] + b"\x08"))
    test_images.write_bytes(test_images.read_bytes()[:-20])
    test_labels.write_bytes(gzip.compress(gzip.decompress(test_labels.read_bytes()) + bytes(10**6)))
    checks = verify("mnist", tmp_path)
    assert [check.status for check in checks] == ["missing", "wrong checksum", "damaged", "wrong checksum"]
    assert not any(check.good for check in checks)
    assert checks[0].path is None
    assert checks[1].path == labels


def test_files_without_a_published_checksum_are_read_to_their_end(
    tmp_path: Path, write_idx_set: Callable[..., Any]
) -> None:
    write_idx_set(tmp_path / "EMNIST47")
    checks = verify("emnist47", tmp_path)
    assert {check.status for check in checks} == {"no published checksum"}
    assert all(check.good for check in checks)
    path = tmp_path / "EMNIST47/t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert verify("emnist47", tmp_path)[2].status == "damaged"


def test_sets_without_files_and_sets_of_ones_own() -> None:
    assert verify("digits") == []
    with pytest.raises(UserError, match="is your own"):
        verify("idx:folder")
    with pytest.raises(UserError, match="unknown"):
        verify("nothing")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_real_files_are_the_published_ones(name: str) -> None:
    if "FEDTRIP_DATA" not in os.environ:
        pytest.skip("needs the real files: set FEDTRIP_DATA to a folder that holds them")
    assert [(check.status, check.detail) for check in verify(name)] == [("ok", "")] * 4
