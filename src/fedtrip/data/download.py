"""One file from the network: resumed where it broke off, checked, and moved into place only when it is right.

Bytes go to `NAME.part`. A broken connection, also one of an earlier run, is resumed with an HTTP range; the addresses
of a file are mirrors of the same bytes, so another one may go on where the first broke off.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import requests
import urllib3
from rich.progress import Progress, TaskID

from fedtrip.data.entry import Download
from fedtrip.errors import UserError

_CHUNK = 1 << 18
_WORTH_ANOTHER_TRY = 1 << 20
_PASSING_STATUS = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Patience:
    """How long to wait (seconds), and how often to go through the addresses without getting any further."""

    tries: int = 4
    pause: float = 0.5  # doubled after each try
    connect_timeout: float = 10.0
    read_timeout: float = 30.0


class _Broken(Exception):
    """This time it did not work; the same address may be tried again."""


class _Refused(Exception):
    """This address is of no use."""


class _WrongContent(_Refused):
    """It gave other bytes than the published ones."""


def download_file(wanted: Download, folder: Path, progress: Progress, patience: Patience | None = None) -> Path:
    """Bring one file into the folder and return its path. Raises UserError telling what each address answered."""
    patience = patience or Patience()
    part, target = folder / f"{wanted.name}.part", folder / wanted.name
    task = progress.add_task(wanted.name, total=wanted.size)
    reasons: dict[str, str] = {}
    usable = list(wanted.urls)
    furthest, fruitless = _size(part), 0
    try:
        while usable and fruitless < patience.tries:
            if fruitless:
                time.sleep(patience.pause * 2 ** (fruitless - 1))
            for url in tuple(usable):
                resumed = _size(part) > 0
                try:
                    _transfer(url, part, wanted, patience, progress, task)
                    _check(part, wanted)
                except _Broken as failure:
                    reasons[url] = str(failure)
                except _Refused as failure:
                    reasons[url] = str(failure)
                    # What was resumed may have been wrong before: then the address deserves a fresh start.
                    if not (resumed and isinstance(failure, _WrongContent)):
                        usable.remove(url)
                else:
                    os.replace(part, target)
                    _sync_folder(folder)
                    return target
            if _size(part) >= furthest + _WORTH_ANOTHER_TRY:
                furthest, fruitless = _size(part), 0
            else:
                fruitless += 1
    except OSError as error:  # of the disk; those of the network are caught where they arise
        raise UserError(f"cannot write {part} ({error.strerror or error})") from error
    answers = "; ".join(f"{url}: {reasons[url]}" for url in wanted.urls)
    raise UserError(f"cannot download {wanted.name}: {answers}")


def file_md5(path: Path) -> str:
    """The MD5 of a file: what the publishers print, and a guard against damage."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _transfer(url: str, part: Path, wanted: Download, patience: Patience, progress: Progress, task: TaskID) -> None:
    """Bring `part` to its full size, from where it stands. An OSError of the disk passes through."""
    have = _size(part)
    if have > wanted.size:
        part.unlink()
        have = 0
    progress.update(task, completed=have)
    if have == wanted.size:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = requests.get(
            url, headers=headers, stream=True, timeout=(patience.connect_timeout, patience.read_timeout)
        )
    except requests.RequestException as error:
        raise _Broken(_reason(error)) from error
    with response:
        goes_on = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if response.status_code == 416 or (response.status_code == 206 and not goes_on):
            part.unlink(missing_ok=True)
            raise _Broken("the server could not go on where the download broke off; starting over")
        if response.status_code not in (200, 206):
            kind = _Broken if response.status_code in _PASSING_STATUS else _Refused
            raise kind(f"HTTP {response.status_code} {response.reason}")
        offered = _offered_size(response)
        if offered not in (None, wanted.size):
            raise _Refused(f"offers a file of {offered:,} bytes; the published one has {wanted.size:,}")
        if not goes_on:
            have = 0
        with part.open("ab" if goes_on else "wb") as stream:
            try:
                # Undecoded: some servers declare a stored .gz file as a compressed transfer.
                for chunk in response.raw.stream(_CHUNK, decode_content=False):
                    have += len(chunk)
                    if have > wanted.size:
                        break
                    stream.write(chunk)
                    progress.update(task, completed=have)
            except (urllib3.exceptions.HTTPError, requests.RequestException) as error:
                how = "fell silent" if isinstance(error, urllib3.exceptions.TimeoutError) else "broke"
                raise _Broken(f"the connection {how} at {have:,} of {wanted.size:,} bytes") from error
            finally:
                stream.flush()
                os.fsync(stream.fileno())
    if have > wanted.size:
        part.unlink()
        raise _WrongContent(f"sends more than the {wanted.size:,} bytes that were published")
    if have < wanted.size:
        raise _Broken(f"the connection ended at {have:,} of {wanted.size:,} bytes")


def _offered_size(response: requests.Response) -> int | None:
    """The size of the whole file as the server states it, or None if it does not."""
    if response.status_code == 206:
        stated = response.headers.get("Content-Range", "").rpartition("/")[2]
    else:
        stated = response.headers.get("Content-Length", "")
    return int(stated) if stated.isascii() and stated.isdigit() else None


def _check(part: Path, wanted: Download) -> None:
    found = file_md5(part)
    if found != wanted.md5:
        part.unlink()
        raise _WrongContent(f"sent a file with the wrong checksum, deleted (MD5 {found}, published {wanted.md5})")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: requests.RequestException) -> str:
    """Why there was no answer, in few words: the innermost cause, since the outer ones repeat it."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    inner = getattr(error.args[0], "reason", error) if error.args else error
    return str(inner).rsplit(": ", 1)[-1] or type(error).__name__
