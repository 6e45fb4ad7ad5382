"""Archives of a publisher: only the members the catalogue names are taken, each bounded in size."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fedtrip.data.entry import DataArchive
from fedtrip.errors import UserError

_CHUNK = 1 << 20
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError)


def extract(path: Path, archive: DataArchive, folder: Path) -> None:
    """Bring every member of the catalogue's entry into the folder, or none of them.

    The names written are the catalogue's, never the archive's, so no member can leave the folder. The members go
    to a temporary folder first; when all are there they are moved.
    """
    scratch = Path(tempfile.mkdtemp(prefix=".extract-", dir=folder))
    try:
        wanted = {archive.prefix + name: (scratch / name, size) for name, size in archive.members}
        members = _zip_members if zipfile.is_zipfile(path) else _tar_members
        for name, stream in members(path, wanted):
            target, largest = wanted.pop(name)
            _copy(stream, target, largest, path)
        if wanted:
            raise UserError(f"{path}: lacks {', '.join(wanted)}")
        for name, _ in archive.members:
            os.replace(scratch / name, folder / name)
    except _DAMAGE as error:
        raise UserError(f"{path}: the archive is damaged ({error})") from error
    except OSError as error:
        raise UserError(f"cannot extract {path} into {folder} ({error.strerror or error})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _zip_members(path: Path, wanted: dict[str, tuple[Path, int]]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as opened:
        for name in tuple(wanted):
            if name in opened.namelist():
                with opened.open(name) as stream:
                    yield name, stream


def _tar_members(path: Path, wanted: dict[str, tuple[Path, int]]) -> Iterator[tuple[str, IO[bytes]]]:
    # Skipping a member unpacks it, so what is skipped is bounded too: the real archive has a few small files more.
    skippable = sum(size for _, size in wanted.values()) + _CHUNK
    with tarfile.open(path) as opened:
        for member in opened:
            stream = opened.extractfile(member) if member.isreg() and member.name in wanted else None
            if stream is not None:
                with stream:
                    yield member.name, stream
            else:
                skippable -= member.size + tarfile.BLOCKSIZE
                if skippable < 0:
                    raise UserError(f"{path}: holds far more than the files expected")


def _copy(stream: IO[bytes], target: Path, largest: int, path: Path) -> None:
    left = largest
    with target.open("wb") as out:
        while chunk := stream.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise UserError(f"{path}: its member {target.name} is larger than the {largest:,} bytes expected")
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
