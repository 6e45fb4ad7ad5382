"""The most memory that a federation takes, each measured in a process of its own."""

from __future__ import annotations

import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from bench.cases import CASES, fedtrip_rounds
from bench.turns import Work, interleaved
from bench.watch import Watch

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
