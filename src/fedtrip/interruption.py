"""Signals that lose nothing: the first Ctrl-C ends the work after the current round, a second one at once.

SIGTERM and SIGHUP (a batch system, a closed terminal) end it at once too: the round under way may outlast the time they
give. Whatever ends the work, what a finished round resulted in is kept.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

MESSAGE = "\nends after the current round; Ctrl-C again ends at once\n"


class Terminated(SystemExit):
    """SIGTERM or SIGHUP came; the exit code is what a shell gives a process that such a signal ended."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number).name


Ended = (KeyboardInterrupt, Terminated)
"""What the work is ended by, if somebody wants it to end."""


def how_it_ended(reason: BaseException) -> str:
    """`interrupted` or `ended by SIGTERM`: for the line that says how to go on."""
    return f"ended by {reason.signal}" if isinstance(reason, Terminated) else "interrupted"


class _Deferral(threading.local):
    """Whether this thread is in the middle of something, and what a signal has asked to be raised.

    It stays asked for until it has reached its `Interruption`: a library may have made another error of it, or have
    swallowed it.
    """

    depth = 0
    asked: BaseException | None = None


_deferral = _Deferral()


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is done here is done as a whole: a signal that would end it is raised afterwards."""
    _deferral.depth += 1
    try:
        yield
    finally:
        _deferral.depth -= 1
    if not _deferral.depth and _deferral.asked is not None:
        raise _deferral.asked


@contextmanager
def handlers_kept() -> Iterator[None]:
    """A library that takes SIGTERM for itself while it starts does not keep it."""
    mine = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and mine is not None:
            signal.signal(signal.SIGTERM, mine)


class Interruption:
    """While it is entered, signals are heard here. The work asks `asked` (or `check`) between two rounds."""

    def __init__(self) -> None:
        self.asked = self._terminated = False
        self._before: dict[int, object] = {}

    def check(self) -> None:
        """End here if that was asked for."""
        if self.asked:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads get no signals
            for number, handler in (
                (signal.SIGINT, self._hear),
                (signal.SIGTERM, self._terminate),
                (signal.SIGHUP, self._terminate),
            ):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # ignored (nohup, a background job) it stays so
                    self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        asked, _deferral.asked = _deferral.asked, None
        if asked is not None and not isinstance(error, Ended):
            raise asked

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            _end(KeyboardInterrupt())
            return
        self.asked = True
        os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, MESSAGE.encode())  # safe in a handler

    def _terminate(self, number: int, _frame: FrameType | None) -> None:
        if not self._terminated:  # a second one must not cut short what the first one began
            self._terminated = True
            _end(Terminated(number))


def _end(reason: BaseException) -> None:
    """In a signal's handler: raise, or have it raised when this may be."""
    _deferral.asked = reason
    if not _deferral.depth:
        raise reason
