"""Downloads from a real server that breaks off, ignores ranges, lies about sizes and sends wrong bytes."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from fedtrip.data.download import Patience, download_file
from fedtrip.data.entry import Download
from fedtrip.errors import UserError

CONTENT = os.urandom(3_000_000)
SOON = Patience(tries=3, pause=0.01, connect_timeout=2, read_timeout=2)


@pytest.fixture
def wanted(server: Any) -> Download:
    server.content["/file.gz"] = CONTENT
    return Download("file.gz", len(CONTENT), hashlib.md5(CONTENT).hexdigest(), (f"{server.address}/file.gz",))


def fetch(wanted: Download, folder: Path) -> bytes:
    path = download_file(wanted, folder, Progress(disable=True), SOON)
    assert os.listdir(folder) == ["file.gz"]  # no .part is left behind
    return path.read_bytes()


def ranges(server: Any) -> list[str | None]:
    return [asked for _, asked in server.requests]


def test_a_whole_file(server: Any, wanted: Download, tmp_path: Path) -> None:
    assert fetch(wanted, tmp_path) == CONTENT
    assert ranges(server) == [None]


@pytest.mark.parametrize("state_length", [True, False])
def test_a_broken_connection_is_resumed(server: Any, wanted: Download, tmp_path: Path, state_length: bool) -> None:
    server.script = [{"cut": 1_000_000, "state_length": state_length}, {"cut": 500_000, "state_length": state_length}]
    assert fetch(wanted, tmp_path) == CONTENT
    assert ranges(server) == [None, "bytes=1000000-", "bytes=1500000-"]


def test_more_breaks_than_tries_are_borne_while_it_gets_further(server: Any, wanted: Download, tmp_path: Path) -> None:
    large = CONTENT * 4
    server.content["/file.gz"] = large
    server.script = [{"cut": 1_100_000}] * 8
    wanted = replace(wanted, size=len(large), md5=hashlib.md5(large).hexdigest())
    assert fetch(wanted, tmp_path) == large


def test_a_server_that_always_breaks_is_given_up_and_resumed_in_the_next_run(
    server: Any, wanted: Download, tmp_path: Path
) -> None:
    server.script = [{"cut": 1000}] * 3
    with pytest.raises(UserError, match=r"file\.gz: the connection broke at 3,000 of 3,000,000 bytes"):
        download_file(wanted, tmp_path, Progress(disable=True), SOON)
    assert (tmp_path / "file.gz.part").read_bytes() == CONTENT[:3000]
    assert not (tmp_path / "file.gz").exists()
    assert fetch(wanted, tmp_path) == CONTENT
    assert ranges(server)[-1] == "bytes=3000-"


def test_a_server_that_ignores_ranges_starts_from_0(server: Any, wanted: Download, tmp_path: Path) -> None:
    server.script = [{"cut": 2_000_000}, {"heed_range": False}]
    assert fetch(wanted, tmp_path) == CONTENT
    assert len(server.requests) == 2


def test_a_server_that_ignores_ranges_and_always_breaks_is_given_up(
    server: Any, wanted: Download, tmp_path: Path
) -> None:
    server.script = [{"cut": 2_000_000, "heed_range": False}] * 50
    with pytest.raises(UserError, match="broke at 2,000,000"):
        download_file(wanted, tmp_path, Progress(disable=True), SOON)
    assert len(server.requests) == 4  # one got further than before, three did not


@pytest.mark.parametrize("second", [{"status": 416}, {"shift_range": 7}])
def test_a_range_that_cannot_be_had_starts_over(
    server: Any, wanted: Download, tmp_path: Path, second: dict[str, int]
) -> None:
    server.script = [{"cut": 1_000_000}, second]
    assert fetch(wanted, tmp_path) == CONTENT
    assert ranges(server) == [None, "bytes=1000000-", None]


def test_a_complete_part_needs_no_network(server: Any, wanted: Download, tmp_path: Path) -> None:
    (tmp_path / "file.gz.part").write_bytes(CONTENT)
    assert fetch(wanted, tmp_path) == CONTENT
    assert server.requests == []


@pytest.mark.parametrize("left", [CONTENT + b"x", bytes(len(CONTENT)), b"<html>"])
def test_a_wrong_part_is_replaced(wanted: Download, tmp_path: Path, left: bytes) -> None:
    (tmp_path / "file.gz.part").write_bytes(left)
    assert fetch(wanted, tmp_path) == CONTENT


def test_wrong_bytes_are_deleted_and_told(server: Any, wanted: Download, tmp_path: Path) -> None:
    server.content["/file.gz"] = bytes(len(CONTENT))
    with pytest.raises(UserError, match="wrong checksum, deleted") as raised:
        download_file(wanted, tmp_path, Progress(disable=True), SOON)
    assert wanted.urls[0] in str(raised.value)
    assert wanted.md5 in str(raised.value)
    assert os.listdir(tmp_path) == []
    assert len(server.requests) == 1  # the same bytes would come again


@pytest.mark.parametrize("size", [10, len(CONTENT) + 1])
def test_a_file_of_another_size_is_refused_at_once(server: Any, wanted: Download, tmp_path: Path, size: int) -> None:
    server.content["/file.gz"] = bytes(size)
    with pytest.raises(UserError, match=f"offers a file of {size:,} bytes; the published one has 3,000,000"):
        download_file(wanted, tmp_path, Progress(disable=True), SOON)
    assert os.listdir(tmp_path) == []


def test_an_endless_answer_is_cut_off(server: Any, wanted: Download, tmp_path: Path) -> None:
    server.script = [{"content": CONTENT + bytes(10**6), "state_length": False}]
    with pytest.raises(UserError, match="sends more than the 3,000,000 bytes"):
        download_file(wanted, tmp_path, Progress(disable=True), SOON)
    assert os.listdir(tmp_path) == []


def test_mirrors_are_tried_in_order_and_go_on_with_what_is_there(server: Any, wanted: Download, tmp_path: Path) -> None:
    server.content["/mirror/file.gz"] = CONTENT
    urls = (f"{server.address}/gone", wanted.urls[0], f"{server.address}/mirror/file.gz")
    server.script = [{}, {"cut": 1_000_000}]
    assert fetch(replace(wanted, urls=urls), tmp_path) == CONTENT
    assert server.requests == [("/gone", None), ("/file.gz", None), ("/mirror/file.gz", "bytes=1000000-")]


def test_every_address_and_what_it_answered_is_named(server: Any, wanted: Download, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: the connection is refused
        urls = (f"{server.address}/gone", f"http://127.0.0.1:{closed.getsockname()[1]}/file.gz", wanted.urls[0])
        server.script = [{}, *[{"status": 503}] * 3]
        with pytest.raises(UserError) as raised:
            download_file(replace(wanted, urls=urls), tmp_path, Progress(disable=True), SOON)
    message = str(raised.value)
    assert f"{urls[0]}: HTTP 404 Not Found" in message
    assert f"{urls[1]}: " in message
    assert "Connection refused" in message
    assert f"{urls[2]}: HTTP 503" in message
    assert [path for path, _ in server.requests].count("/gone") == 1  # a 404 stays a 404; a 503 may pass
    assert [path for path, _ in server.requests].count("/file.gz") == 3


def test_a_silent_server_runs_into_the_timeout(wanted: Download, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.gz"
        with pytest.raises(UserError, match="no answer in time"):
            download_file(
                replace(wanted, urls=(url,)), tmp_path, Progress(disable=True), replace(SOON, tries=1, read_timeout=0.2)
            )


def test_a_server_that_falls_silent_midway_is_resumed(server: Any, wanted: Download, tmp_path: Path) -> None:
    server.script = [{"cut": 1_000_000, "stay_silent": 0.5}]
    path = download_file(wanted, tmp_path, Progress(disable=True), replace(SOON, read_timeout=0.2))
    assert path.read_bytes() == CONTENT
    first, second = ranges(server)
    assert first is None
    assert second is not None
    assert 700_000 < int(second.removeprefix("bytes=").removesuffix("-")) <= 1_000_000  # at most a piece is lost
