"""Where a data set's files lie: the folders that are looked in, in order, and the first that holds all of them."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from fedtrip.data.entry import DataFile, KnownSet
from fedtrip.errors import UserError

ENVIRONMENT_VARIABLE = "FEDTRIP_DATA"


def cache_dir() -> Path:
    """The user's cache folder of this program: where downloads go unless another folder is named."""
    return Path(platformdirs.user_cache_dir("fedtrip"))


def search_folders(known: KnownSet, data_dir: Path | None = None) -> list[Path]:
    """The folders that may hold the set's files, in order; a given `data_dir` replaces all others."""
    if data_dir is not None:
        return [data_dir / known.folder]
    roots = [cache_dir()]
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        root = Path(named).expanduser()
        if not root.is_dir():  # better than a silent download beside the folder that was meant
            raise UserError(f"{ENVIRONMENT_VARIABLE} is '{named}', which is not a folder; name one, or unset it")
        roots.insert(0, root)
    return [root / known.folder for root in roots] + [Path(folder) for folder in known.system_folders]


def find_file(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder, unpacked or as `NAME.gz`; None if there is neither."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def missing_files(folder: Path, files: tuple[DataFile, ...]) -> list[str]:
    """The names of the files that are not in the folder, neither unpacked nor compressed."""
    return [file.name for file in files if find_file(folder, file.name) is None]


def find_set(known: KnownSet, data_dir: Path | None = None) -> Path | None:
    """The first folder that holds every file of the set, or None."""
    for folder in search_folders(known, data_dir):
        if known.files and not missing_files(folder, known.files):
            return folder
    return None
