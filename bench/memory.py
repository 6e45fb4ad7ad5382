"""The most memory that a federation takes, each measured in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.cases import CASES, fedtrip_rounds
from bench.turns import Work, interleaved

WORKERS = 2
FEDERATIONS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "million": ("cnn", 100, {"clients": 1_000_000, "per_round": 100, "samples_per_client": 50}),
    "fifty_alexnets": ("alexnet", 60, {"clients": 50, "per_round": 4, "samples_per_client": 50}),
}
"""Model, rounds and settings: FedTrip, whose clients each keep a model."""


def peak_memory(name: str, share: float = 1.0) -> dict[str, float]:
    """Gigabytes of all processes together, and seconds a round; of a share of the rounds."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(_measure, name, share).result()


def _measure(name: str, share: float) -> dict[str, float]:
    model, all_rounds, settings = FEDERATIONS[name]
    rounds = max(1, round(share * all_rounds))
    federation = CASES[model].federation(
        method="fedtrip", partition="dirichlet:0.5", draw="overlap", eval_every=10_000, **settings
    )
    with Watch() as watch, fedtrip_rounds(federation, WORKERS) as running:
        seconds = interleaved({"round": Work(running.round)}, rounds)["round"]
    return {
        "rounds": rounds,
        "seconds a round": statistics.median(seconds),
        "gigabytes": watch.most / 1e9,
        "model_megabytes": 4 * sum(p.numel() for p in federation.module.parameters()) / 1e6,
    }


class Watch:
    """Looks ten times a second how much memory this process and its children take together.

    Each process' "proportional set size" is summed, so that a page that three of them share counts once.
    """

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            self.most = max(self.most, sum(_proportional_size(pid) for pid in (os.getpid(), *_children(os.getpid()))))


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def _proportional_size(pid: int) -> int:
    """Bytes; 0 for a process that has just ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(1024 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
