"""Getting whole sets: single files and archives, into the data folder or the cache."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtrip.data import KNOWN_SETS, KnownSet, obtain
from fedtrip.data.download import Patience
from fedtrip.data.entry import DataArchive, Download
from fedtrip.errors import UserError

SOON = Patience(tries=2, pause=0.01, connect_timeout=2, read_timeout=2)


@pytest.fixture
def small_mnist(server: Any, tmp_path: Path, write_idx_set: Callable[..., Any]) -> KnownSet:
    """MNIST's entry with small files on the local server."""
    write_idx_set(tmp_path / "published")
    downloads = []
    for download in KNOWN_SETS["mnist"].downloads:
        content = (tmp_path / "published" / download.name).read_bytes()
        server.content[f"/{download.name}"] = content
        url = f"{server.address}/{download.name}"
        downloads.append(Download(download.name, len(content), hashlib.md5(content).hexdigest(), (url,)))
    return replace(KNOWN_SETS["mnist"], downloads=tuple(downloads))


@pytest.fixture
def small_emnist(server: Any, tmp_path: Path, write_idx_set: Callable[..., Any]) -> KnownSet:
    """EMNIST's entry with an archive of one small split on the local server."""
    write_idx_set(tmp_path / "published", prefix="emnist-balanced-", test="test")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in (tmp_path / "published").iterdir():
            archive.write(path, f"gzip/{path.name}")
    content = server.content["/gzip.zip"] = packed.getvalue()
    url = f"{server.address}/gzip.zip"
    download = Download("gzip.zip", len(content), hashlib.md5(content).hexdigest(), (url,))
    members = tuple((path.name, 10**6) for path in (tmp_path / "published").iterdir())
    return replace(KNOWN_SETS["emnist"], archive=DataArchive(download, "gzip/", members))


def visible(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def test_single_files(server: Any, small_mnist: KnownSet, tmp_path: Path) -> None:
    folder = obtain(small_mnist, tmp_path / "data", progress=False, patience=SOON)
    assert folder == tmp_path / "data" / "MNIST" / "raw"
    assert visible(folder) == visible(tmp_path / "published")
    obtain(small_mnist, tmp_path / "data", progress=False, patience=SOON)
    assert len(server.requests) == 4  # nothing twice
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    obtain(small_mnist, tmp_path / "data", progress=False, patience=SOON)
    assert len(server.requests) == 5  # only what is missing


def test_the_cache_is_the_default(small_mnist: KnownSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert obtain(small_mnist, progress=False).is_relative_to(tmp_path / "cache")


def test_an_archive_is_extracted_and_removed(small_emnist: KnownSet, tmp_path: Path) -> None:
    folder = obtain(small_emnist, tmp_path / "data", progress=False, patience=SOON)
    assert visible(folder) == visible(tmp_path / "published")


def test_an_archive_brought_by_hand_is_used_and_kept(server: Any, small_emnist: KnownSet, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "EMNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "gzip.zip").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"gzip\.zip has the wrong checksum"):
        obtain(small_emnist, tmp_path / "data", progress=False, patience=SOON)
    (folder / "gzip.zip").write_bytes(server.content["/gzip.zip"])
    obtain(small_emnist, tmp_path / "data", progress=False, patience=SOON)
    assert visible(folder) == sorted([*visible(tmp_path / "published"), "gzip.zip"])
    assert server.requests == []


def test_a_failure_says_how_to_do_it_by_hand(
    server: Any, small_mnist: KnownSet, small_emnist: KnownSet, tmp_path: Path
) -> None:
    server.content.clear()
    with pytest.raises(UserError) as raised:
        obtain(small_mnist, tmp_path / "data", progress=False, patience=SOON)
    message = str(raised.value)
    assert "HTTP 404" in message
    assert small_mnist.downloads[0].urls[0] in message
    assert (
        f"train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte into "
        f"{tmp_path / 'data' / 'MNIST' / 'raw'}" in message
    )
    with pytest.raises(UserError, match=r"put gzip\.zip from http.* into .*EMNIST/raw"):
        obtain(small_emnist, tmp_path / "data", progress=False, patience=SOON)


def test_a_set_without_a_publisher_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'emnist47' has no publisher .* idx files .* into .*EMNIST47"):
        obtain(KNOWN_SETS["emnist47"], tmp_path)


def test_a_folder_that_cannot_be_written(small_mnist: KnownSet, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"a file where a folder should be")
    with pytest.raises(UserError, match=r"cannot write into .*MNIST/raw"):
        obtain(small_mnist, tmp_path / "data", progress=False, patience=SOON)


def test_two_at_once_download_once(server: Any, small_mnist: KnownSet, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=obtain, args=(small_mnist, tmp_path / "data"), kwargs={"progress": False})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 4


def test_looking_into_the_catalogue_needs_no_torch() -> None:
    script = (
        "import sys, fedtrip.data.acquire, fedtrip.data.integrity\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
