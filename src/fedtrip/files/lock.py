"""One writer for a folder at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Self

from fedtrip.errors import UserError

PATIENCE = 3.0
"""Seconds to wait for a process that is just ending."""


class FolderLock:
    """A lock on the folder itself: it needs no file, and the system gives it back when the process dies of anything."""

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        waited_until = time.monotonic() + patience
        try:
            while not self._taken():
                if time.monotonic() >= waited_until:
                    raise UserError(
                        f"--out '{folder}' is being written by another process; accepted: another folder, or the same "
                        "one when that process has ended"
                    )
                time.sleep(0.05)
        except BaseException:
            self.release()
            raise

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            # some network file systems have no locks for folders: there it is the user's to take care
            return problem.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others write."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_locked(folder: Path) -> bool | None:
    """Whether somebody writes the folder; None where that cannot be told, as on some network file systems.

    The lock is tried and given back at once, for which a writer that just begins has the patience.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return True if problem.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    finally:
        os.close(descriptor)
    return False
