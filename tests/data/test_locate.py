"""Which folder a set is taken from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtrip.data import KNOWN_SETS, find_set, load_dataset
from fedtrip.errors import UserError

MNIST = KNOWN_SETS["mnist"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDTRIP_DATA", raising=False)
    return tmp_path / "cache" / "fedtrip"


def test_the_order(
    tmp_path: Path, cache: Path, write_idx_set: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    system = replace(MNIST, system_folders=(str(tmp_path / "system"),))
    assert find_set(system) is None
    write_idx_set(tmp_path / "system")
    assert find_set(system) == tmp_path / "system"
    write_idx_set(cache / "MNIST/raw")
    assert find_set(system) == cache / "MNIST/raw"
    (tmp_path / "named").mkdir()
    monkeypatch.setenv("FEDTRIP_DATA", str(tmp_path / "named"))
    assert find_set(system) == cache / "MNIST/raw"
    write_idx_set(tmp_path / "named/MNIST/raw")
    assert find_set(system) == tmp_path / "named/MNIST/raw"
    assert find_set(system, tmp_path / "given") is None  # a given folder replaces all others
    assert load_dataset("mnist", progress=False).x_train.shape == (30, 1, 28, 28)


def test_a_folder_that_lacks_a_file_is_passed_over(
    tmp_path: Path, cache: Path, write_idx_set: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx_set(tmp_path / "named/MNIST/raw")
    write_idx_set(cache / "MNIST/raw")
    (tmp_path / "named/MNIST/raw/t10k-labels-idx1-ubyte.gz").unlink()
    monkeypatch.setenv("FEDTRIP_DATA", str(tmp_path / "named"))
    assert find_set(MNIST) == cache / "MNIST/raw"


def test_a_variable_that_names_no_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTRIP_DATA", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"FEDTRIP_DATA is .*absent', which is not a folder"):
        find_set(MNIST)
    assert find_set(MNIST, tmp_path) is None  # not looked at
    assert load_dataset("digits").classes == 10
