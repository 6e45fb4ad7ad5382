"""`fedtrip data`: results on stdout, messages on stderr, exit code 2 when something is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedtrip.cli.data import app
from fedtrip.data import KNOWN_SETS
from fedtrip.data.entry import Download
from fedtrip.errors import UserError


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDTRIP_DATA", raising=False)


def test_list_shows_every_set_and_where_it_is(tmp_path: Path, write_idx_set: Callable[..., Any]) -> None:
    write_idx_set(tmp_path / "MNIST/raw")
    rows = {row["name"]: row for row in json.loads(run("list", "--json", "--data-dir", str(tmp_path)).stdout)}
    assert rows.keys() == KNOWN_SETS.keys()
    assert rows["mnist"]["folder"] == str(tmp_path / "MNIST/raw")
    assert (rows["cifar-10"]["here"], rows["cifar-10"]["download_bytes"]) == (False, 170_052_171)
    assert rows["digits"]["here"]
    table = run("list", "--data-dir", str(tmp_path)).stdout
    assert all(name in table for name in KNOWN_SETS)
    assert "not here" in table
    assert "in fedtrip" in table


def test_get_downloads_and_prints_the_folder(
    tmp_path: Path, server: Any, write_idx_set: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx_set(tmp_path / "published")
    downloads = []
    for path in sorted((tmp_path / "published").iterdir()):
        content = server.content[f"/{path.name}"] = path.read_bytes()
        url = f"{server.address}/{path.name}"
        downloads.append(Download(path.name, len(content), hashlib.md5(content).hexdigest(), (url,)))
    monkeypatch.setitem(KNOWN_SETS, "mnist", replace(KNOWN_SETS["mnist"], downloads=tuple(downloads)))
    done = run("get", "mnist", "--data-dir", str(tmp_path / "data"))
    assert done.exit_code == 0
    assert done.stdout == f"{tmp_path / 'data/MNIST/raw'}\n"
    assert "train-images-idx3-ubyte.gz" in done.stderr
    done = run("get", "mnist")
    assert done.stdout == f"{tmp_path / 'cache/fedtrip/MNIST/raw'}\n"


def test_get_what_cannot_be_got(tmp_path: Path) -> None:
    assert isinstance(run("get", "emnist47", "--data-dir", str(tmp_path)).exception, UserError)
    assert isinstance(run("get", "nothing").exception, UserError)
    done = run("get", "digits")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "comes with fedtrip" in done.stderr


def test_verify_tells_by_its_exit_code(tmp_path: Path, write_idx_set: Callable[..., Any]) -> None:
    write_idx_set(tmp_path / "EMNIST47")
    done = run("verify", "--data-dir", str(tmp_path))  # sets that are not here are no fault
    assert done.exit_code == 0
    assert "no published checksum" in done.stdout
    assert run("verify", "mnist", "--data-dir", str(tmp_path)).exit_code == 2
    write_idx_set(tmp_path / "MNIST/raw")  # small ones: not those published
    done = run("verify", "--json", "--data-dir", str(tmp_path))
    assert done.exit_code == 2
    found = {(row["set"], row["status"]) for row in json.loads(done.stdout)}
    assert found == {("mnist", "wrong checksum"), ("emnist47", "no published checksum")}


def test_verify_where_there_is_nothing(tmp_path: Path) -> None:
    done = run("verify", "--data-dir", str(tmp_path))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no files to check" in done.stderr
