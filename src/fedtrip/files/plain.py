"""Regular files in folders of anybody: never through a link, never waiting for a pipe, never more than asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotPlain(OSError):
    """It is a link, a pipe, a device, a folder, or larger than accepted."""


@dataclass(frozen=True)
class Stamp:
    """Which file it is and when it was last written: another stamp is another content."""

    device: int
    inode: int
    size: int
    changed: int
    """nanoseconds"""


@contextmanager
def opened_plain(path: Path) -> Iterator[tuple[int, Stamp]]:
    """The file's descriptor and stamp; raises `OSError` if it is not there or no regular file."""
    descriptor = os.open(path, _FLAGS)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPlain(f"'{path}' is no regular file")
        yield descriptor, _stamp(found)
    finally:
        os.close(descriptor)


def read_plain(path: Path, at_most: int) -> bytes:
    """The content of a file that has at most so many bytes."""
    with opened_plain(path) as (descriptor, _):
        content = read_at(descriptor, 0, at_most + 1)
    if len(content) > at_most:
        raise NotPlain(f"'{path}' has more than {at_most:,} bytes")
    return content


def read_at(descriptor: int, place: int, size: int) -> bytes:
    """So many bytes from there on, or those that there are."""
    parts = []
    while size > 0 and (part := os.pread(descriptor, min(size, 2**20), place)):
        parts.append(part)
        place, size = place + len(part), size - len(part)
    return b"".join(parts)


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of a regular file; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return _stamp(found) if stat.S_ISREG(found.st_mode) else None


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
