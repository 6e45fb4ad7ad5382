"""Archives: only what is expected comes out, within the folder and within its size, all of it or nothing."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedtrip.data.entry import DataArchive, Download
from fedtrip.data.unpack import extract
from fedtrip.errors import UserError

EXPECTED = DataArchive(Download("archive", 0, "", ()), "inner/", (("one", 100), ("two", 100)))


def write_archive(path: Path, kind: str, members: dict[str, bytes]) -> None:
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture(params=["zip", "tar"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def test_only_the_expected_members_come_out(tmp_path: Path, folder: Path, kind: str) -> None:
    members = {"inner/one": b"1", "../outside": b"!", "/etc/absolute": b"!", "inner/readme": b"r", "inner/two": b"22"}
    write_archive(tmp_path / "archive", kind, members)
    extract(tmp_path / "archive", EXPECTED, folder)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == {"one": b"1", "two": b"22"}
    assert sorted(os.listdir(tmp_path)) == ["archive", "folder"]


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"inner/one": b"1"}, "lacks inner/two"),
        ({"inner/one": b"1", "two": b"2"}, "lacks inner/two"),
        ({"inner/one": b"1", "inner/two": bytes(101)}, "two is larger than the 100 bytes"),
        ({"inner/one": b"1", "inner/two": bytes(10**7)}, "two is larger than the 100 bytes"),
    ],
)
def test_nothing_comes_out_of_a_wrong_archive(
    tmp_path: Path, folder: Path, kind: str, members: dict[str, bytes], fault: str
) -> None:
    write_archive(tmp_path / "archive", kind, members)
    with pytest.raises(UserError, match=fault):
        extract(tmp_path / "archive", EXPECTED, folder)
    assert os.listdir(folder) == []


def test_a_tar_full_of_other_things_is_not_unpacked_to_its_end(tmp_path: Path, folder: Path) -> None:
    write_archive(tmp_path / "archive", "tar", {"other": bytes(3 * 10**6), "inner/one": b"1", "inner/two": b"2"})
    with pytest.raises(UserError, match="holds far more"):
        extract(tmp_path / "archive", EXPECTED, folder)


def test_links_are_not_followed(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    with tarfile.open(tmp_path / "archive", "w:gz") as archive:
        for name in ("inner/one", "inner/two"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            archive.addfile(link)
    with pytest.raises(UserError, match=r"far more|lacks inner/one, inner/two"):
        extract(tmp_path / "archive", EXPECTED, folder)
    assert os.listdir(folder) == []


def test_a_damaged_archive_is_refused(tmp_path: Path, folder: Path, kind: str) -> None:
    write_archive(tmp_path / "archive", kind, {"inner/one": os.urandom(90), "inner/two": os.urandom(90)})
    content = bytearray((tmp_path / "archive").read_bytes())
    content[60:80] = bytes(20)
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(UserError, match=r"damaged|cannot extract|lacks"):
        extract(tmp_path / "archive", EXPECTED, folder)
    (tmp_path / "archive").write_bytes(b"neither")
    with pytest.raises(UserError, match="damaged"):
        extract(tmp_path / "archive", EXPECTED, folder)
    assert os.listdir(folder) == []
