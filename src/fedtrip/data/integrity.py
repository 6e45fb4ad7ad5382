"""Are the files on disk the ones that were published?"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedtrip.data.catalog import known_set
from fedtrip.data.download import file_md5
from fedtrip.data.entry import DataFile, KnownSet
from fedtrip.data.locate import find_file, search_folders
from fedtrip.data.sources import FORMS
from fedtrip.errors import UserError

Status = Literal["ok", "missing", "wrong checksum", "damaged", "no published checksum"]
_CHUNK = 1 << 20


@dataclass(frozen=True)
class FileCheck:
    """What was found about one file. `path` is None if it is missing; `detail` explains a fault."""

    name: str
    path: Path | None
    status: Status
    detail: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong as far as can be told."""
        return self.status in ("ok", "no published checksum")


def verify(spec: str, data_dir: Path | None = None) -> list[FileCheck]:
    """Check each file of a set of the catalogue against its published MD5, in the folder where it would be loaded from.

    Where the compressed file is not the published one, its content still may be: then that is compared. A file
    without a published checksum is read to its end, which tells whether it is whole. A set without files: [].
    """
    if spec.partition(":")[0] in FORMS:
        raise UserError(f"data set '{spec}' is your own: nothing is published to compare it with; loading it checks it")
    known = known_set(spec)
    folder = best_folder(known, data_dir)
    return [_check_file(folder, file, known) for file in known.files]


def best_folder(known: KnownSet, data_dir: Path | None = None) -> Path:
    """The first folder with every file of the set, else the first with any of them, else the first of all."""
    folders = search_folders(known, data_dir)
    return max(folders, key=lambda folder: _present(folder, known))  # the first of equals


def _present(folder: Path, known: KnownSet) -> int:
    count = sum(find_file(folder, file.name) is not None for file in known.files)
    return 2 if count == len(known.files) else int(count > 0)


def _check_file(folder: Path, file: DataFile, known: KnownSet) -> FileCheck:
    path = find_file(folder, file.name)
    if path is None:
        return FileCheck(file.name, None, "missing", f"looked in {folder}")
    try:
        if file.md5 is None:
            _check_whole(path, known)
            return FileCheck(path.name, path, "no published checksum")
        compressed = path.suffix == ".gz"
        if compressed and file.gz_md5 == file_md5(path):
            return FileCheck(path.name, path, "ok")
        found = _unpacked_md5(path, file.size) if compressed else file_md5(path)
    except UserError as error:
        return FileCheck(path.name, path, "damaged", str(error))
    except OSError as error:
        return FileCheck(path.name, path, "damaged", f"cannot be read ({error.strerror or error})")
    if found == file.md5:
        return FileCheck(path.name, path, "ok", "compressed anew, same content" if compressed else "")
    return FileCheck(path.name, path, "wrong checksum", f"MD5 of the content {found}, published {file.md5}")


def _check_whole(path: Path, known: KnownSet) -> None:
    """Refuse a file that is not whole, as far as its format tells."""
    # here: NumPy, which a set with checksums does without
    if known.format == "cifar":
        from fedtrip.data.cifar import check_records

        check_records(path, known.label_bytes)
    else:
        from fedtrip.data.idx import check_idx

        check_idx(path)


def _unpacked_md5(path: Path, size: int) -> str:
    """The MD5 of a gzip file's content, read no further than one byte beyond the published size."""
    digest = hashlib.md5(usedforsecurity=False)
    left = size + 1
    try:
        with gzip.open(path) as stream:
            while left and (chunk := stream.read(min(left, _CHUNK))):
                digest.update(chunk)
                left -= len(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"the gzip data are truncated or damaged ({error})") from error
    return digest.hexdigest()
