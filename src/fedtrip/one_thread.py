"""One computation at a time in a process: torch has one random generator and one number of threads for all of it.

Runs of different threads wait for each other. Who computes holds the lock; in a callback it is given back, with the
caller's generator and settings in force, so that a callback may wait for a run of another thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from fedtrip.errors import UserError
from fedtrip.interruption import undisturbed

LOOKING_UP = 0.1
"""Seconds after which who waits for another thread's run looks whether a signal came."""


class _Mine(threading.local):
    """What this thread is doing."""

    held: ExitStack | None = None
    in_callback = False


_mine = _Mine()
_lock = threading.Lock()


def _new_lock() -> None:
    """In a forked process nobody holds it: the threads of the parent are not there."""
    global _lock
    _lock = threading.Lock()
    _mine.held = None


os.register_at_fork(after_in_child=_new_lock)


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread (two do not give the same bits), gradients on, the caller's random generator left as it was.

    Other threads that come here wait; within it, the same thread may come again.
    """
    if _mine.held is not None:
        yield
        return
    try:
        _take()  # in here: a signal may come right after it
        yield
    finally:
        if _mine.held is not None:  # nothing is, if a signal came before
            _give_back()


@contextmanager
def whole_run() -> Iterator[None]:
    """`one_thread` for a run, which is refused inside another one of the same thread."""
    refuse_inside_a_run()
    with one_thread():
        yield


def refuse_inside_a_run() -> None:
    """Raise `UserError` in a callback of a run, or in code that a run calls."""
    if _mine.in_callback or _mine.held is not None:
        raise UserError(
            "a run was started inside another run, by its on_round or by code that it calls; accepted: one after the "
            "other, or from another thread"
        )


@contextmanager
def callback() -> Iterator[None]:
    """In a run: the caller's generator, threads and modes for as long as the caller's code is called."""
    _give_back()
    _mine.in_callback = True
    try:
        yield
    finally:
        _mine.in_callback = False
        _take()


def _take() -> None:
    """Wait for the lock. A signal ends the waiting, or comes when all is taken: never in between."""
    while _mine.held is None:
        with undisturbed():
            if _lock.acquire(timeout=LOOKING_UP):
                _mine.held = _everything_else()


def _everything_else() -> ExitStack:
    """What goes with the lock, which is held already; all of it is given back together."""
    with ExitStack() as taken:
        taken.callback(_lock.release)
        taken.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        for context in (torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad()):
            taken.enter_context(context)
        return taken.pop_all()


def _give_back() -> None:
    with undisturbed():
        held, _mine.held = _mine.held, None
        assert held is not None
        held.close()
