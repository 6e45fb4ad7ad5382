"""Getting a data set: its files, or its archive and what is in it, from the publisher into a folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from fedtrip.data.download import Patience, download_file, file_md5
from fedtrip.data.entry import DataArchive, KnownSet
from fedtrip.data.locate import cache_dir, missing_files
from fedtrip.data.unpack import extract
from fedtrip.errors import UserError


def obtain(
    known: KnownSet, data_dir: Path | None = None, *, progress: bool = True, patience: Patience | None = None
) -> Path:
    """Bring the files of the set that are missing into its folder of `data_dir`, or of the cache; return that folder.

    An archive that already lies in the folder, brought there by hand, is used instead of a download.
    """
    folder = (data_dir or cache_dir()) / known.folder
    if not missing_files(folder, known.files):
        return folder
    if not known.offered:
        raise UserError(how_to_get(known, data_dir))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder):
            if known.archive is None:
                _obtain_files(known, folder, progress, patience)
            elif missing_files(folder, known.files):  # another process may have brought them meanwhile
                _obtain_archive(known.archive, folder, progress, patience)
    except OSError as error:
        raise UserError(f"cannot write into {folder} ({error.strerror or error})") from error
    except UserError as error:
        raise UserError(f"{error}. {by_hand(known, data_dir)}") from error
    return folder


def how_to_get(known: KnownSet, data_dir: Path | None = None) -> str:
    """One sentence on how the user gets the set into the folder."""
    if known.offered:
        where = "" if data_dir is None else f" --data-dir {data_dir}"
        return f"Get it with: fedtrip data get {known.name}{where}"
    if not known.files:
        return f"'{known.name}' comes with fedtrip: there is nothing to get"
    return f"'{known.name}' has no publisher to download it from. {by_hand(known, data_dir)}"


def by_hand(known: KnownSet, data_dir: Path | None = None) -> str:
    """One sentence on which files the user may put where instead."""
    folder = (data_dir or cache_dir()) / known.folder
    names = ", ".join(file.name for file in known.files)
    if known.archive is not None:
        offered = known.archive.download
        return (
            f"By hand: put {offered.name} from {offered.urls[0]} into {folder} and run `fedtrip data get "
            f"{known.name}` again, or put its files there yourself: {names}"
        )
    kind = "idx files (plain or .gz)" if known.format == "idx" else "files"
    return f"By hand: put the {kind} {names} into {folder}"


def _obtain_files(known: KnownSet, folder: Path, progress: bool, patience: Patience | None) -> None:
    missing = missing_files(folder, known.files)
    with _progress_bar(progress) as bar:
        for wanted in known.downloads:
            if wanted.name.removesuffix(".gz") in missing:
                download_file(wanted, folder, bar, patience)


def _obtain_archive(archive: DataArchive, folder: Path, progress: bool, patience: Patience | None) -> None:
    path = folder / archive.download.name
    brought_by_hand = path.exists()
    if brought_by_hand and file_md5(path) != archive.download.md5:
        raise UserError(f"{path} has the wrong checksum (published: MD5 {archive.download.md5}); delete it")
    if not brought_by_hand:
        with _progress_bar(progress) as bar:
            download_file(archive.download, folder, bar, patience)
    extract(path, archive, folder)
    if not brought_by_hand:
        path.unlink()


def _progress_bar(shown: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not shown,
    )


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: two processes that want the same set must not write the same .part file."""
    with (folder / ".download.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
