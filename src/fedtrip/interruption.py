"""Ctrl-C that loses nothing: the first one ends the work after the current round, a second one at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

MESSAGE = "\nends after the current round; Ctrl-C again ends at once\n"


class _Deferral(threading.local):
    """Whether this thread is in the middle of something, and what is to be raised when it is not any more."""

    depth = 0
    waiting: BaseException | None = None


_deferral = _Deferral()


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is done here is done as a whole: a signal that would end it is raised afterwards."""
    _deferral.depth += 1
    try:
        yield
    finally:
        _deferral.depth -= 1
    if not _deferral.depth and _deferral.waiting is not None:
        waiting, _deferral.waiting = _deferral.waiting, None
        raise waiting


class Interruption:
    """While it is entered, Ctrl-C is heard here. The work asks `asked` (or `check`) between two rounds."""

    def __init__(self) -> None:
        self.asked = False
        self._before: object = None

    def check(self) -> None:
        """End here if that was asked for."""
        if self.asked:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        # other threads get no signals; where SIGINT is ignored (nohup, a background job) it stays so
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        _deferral.waiting = None
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            _end(KeyboardInterrupt())
            return
        self.asked = True
        os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, MESSAGE.encode())  # safe in a handler


def _end(reason: BaseException) -> None:
    """In a signal's handler: raise, or have it raised when this may be."""
    if not _deferral.depth:
        raise reason
    _deferral.waiting = reason
