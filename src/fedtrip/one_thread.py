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
    _take()
    try:
        yield
    finally:
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
    with ExitStack() as taken:
        taken.enter_context(_lock)
        taken.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        for context in (torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad()):
            taken.enter_context(context)
        _mine.held = taken.pop_all()


def _give_back() -> None:
    held, _mine.held = _mine.held, None
    assert held is not None
    held.close()
