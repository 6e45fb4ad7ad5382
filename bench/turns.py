"""Pieces of work in turns: everything that is compared is interleaved in one process, because machines are noisy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

SGEMM_SIZE = 1024


@dataclass(frozen=True)
class Work:
    """Something to do, `at_once` times in a row: rounds follow each other in a run too, and find their data cached."""

    do: Callable[[], object]
    at_once: int = 1


def interleaved(works: Mapping[str, Work], turns: int) -> dict[str, list[float]]:
    """The mean seconds of each piece of work in every turn, after one turn to warm up.

    Every other turn goes backwards, so that nobody always follows the same neighbour.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name in list(works)[:: -1 if turn % 2 else 1]:
            work = works[name]
            began = time.perf_counter()
            for _ in range(work.at_once):
                work.do()
            if turn:
                seconds[name].append((time.perf_counter() - began) / work.at_once)
    return seconds


def by_turn(values: Sequence[float], turns: int, at_once: int) -> list[float]:
    """What was noted once a round, as the mean of each of the last `turns` turns."""
    last = values[len(values) - turns * at_once :]
    return [statistics.fmean(last[start : start + at_once]) for start in range(0, turns * at_once, at_once)]


def sgemm() -> Work:
    """A product of two 1024×1024 matrices, on one thread: what the core can multiply."""
    a, b = torch.randn(2, SGEMM_SIZE, SGEMM_SIZE)
    product = torch.empty(SGEMM_SIZE, SGEMM_SIZE)
    return Work(lambda: torch.mm(a, b, out=product), at_once=5)


def sgemm_rates(seconds: Sequence[float]) -> list[float]:
    """Multiply-adds a second."""
    return [SGEMM_SIZE**3 / each for each in seconds]
