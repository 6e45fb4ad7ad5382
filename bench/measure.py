"""The measurements. Everything that is compared is interleaved in one process, because these machines are noisy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from bench.cases import CASES, Case, fedtrip_rounds
from fedtrip.training.client import sgd_step
from fedtrip.training.flat_model import FlatModel


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of some seconds."""

    median: float
    low: float
    high: float


def spread(values: list[float]) -> Spread:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return Spread(median, low, high)


def interleaved(work: Mapping[str, Callable[[], object]], repeats: int, at_once: int = 1) -> dict[str, list[float]]:
    """Seconds of each piece of work in every turn, after one turn to warm up.

    In a turn each piece is done `at_once` times in a row and the mean taken: rounds follow each other in a real run
    too, and find their data in the caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(repeats + 1):
        for name, do in work.items():
            began = time.perf_counter()
            for _ in range(at_once):
                do()
            if turn:
                seconds[name].append((time.perf_counter() - began) / at_once)
    return seconds


def whole_rounds(case: Case) -> dict[str, Any]:
    """A whole round: plain loop, fedtrip with one and with two workers; and what fedtrip's round is made of."""
    with ExitStack() as stack:
        plain = case.plain()
        one = stack.enter_context(fedtrip_rounds(case.federation(), 1))
        two = stack.enter_context(fedtrip_rounds(case.federation(), 2))
        rounds = {"plain": plain.round, "1 worker": one.round, "2 workers": two.round}
        seconds = interleaved(rounds, case.repeats, case.at_once)
        parts = {
            name: {part: statistics.median(values[case.at_once :]) for part, values in vars(running.parts).items()}
            for name, running in (("1 worker", one), ("2 workers", two))
        }
    return {
        "seconds": {name: vars(spread(values)) for name, values in seconds.items()},
        "ratio": {
            name: vars(spread([p / s for p, s in zip(seconds["plain"], seconds[name], strict=True)]))
            for name in ("1 worker", "2 workers")
        },
        "parts": parts,
    }


def attaching(case: Case, methods: tuple[str, ...]) -> dict[str, float]:
    """Each method's round over FedAvg's, one worker, after two rounds in which every client has got its memory."""
    with ExitStack() as stack:
        rounds = {
            method: stack.enter_context(
                fedtrip_rounds(case.federation(method=method, momentum=0.9, eval_every=10_000), 1)
            )
            for method in methods
        }
        for running in rounds.values():
            for _ in range(3):
                running.round()
        repeats = 5 if case.model == "alexnet" else 3 * case.repeats
        interleaved({method: running.round for method, running in rounds.items()}, repeats)
        training = {method: running.parts.training[4:] for method, running in rounds.items()}
    return {
        method: statistics.median(m / f for m, f in zip(training[method], training["fedavg"], strict=True))
        for method in methods
    }


def sgemm_rate() -> float:
    """Multiply-adds a second of a large matrix product on one thread."""
    a = torch.randn(1024, 1024)
    seconds = interleaved({"sgemm": lambda: a @ a}, 15)["sgemm"]
    return 1024**3 / statistics.median(seconds)


def scaling() -> dict[str, dict[str, Any]]:
    """Seconds of a round against the number of clients N, the clients a round K, and the parameters |w|."""
    results: dict[str, dict[str, Any]] = {}
    cnn = CASES["cnn"]

    def median_round(case: Case, repeats: int, module: nn.Module | None = None, **changes: object) -> tuple[float, int]:
        changes = {"partition": "dirichlet:0.5", "draw": "overlap", "method": "fedtrip", **changes}
        federation = case.federation(module, **changes)
        with fedtrip_rounds(federation, 1) as running:
            seconds = interleaved({"round": running.round}, repeats)["round"]
        return statistics.median(seconds), sum(p.numel() for p in federation.module.parameters())

    sizes = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
    results["N"] = {"x": sizes, "seconds": [median_round(cnn, 8, clients=n)[0] for n in sizes]}
    chosen = [1, 2, 4, 8, 16]
    training_only: dict[str, Any] = {"eval_every": 10_000, "clients": 20}
    results["K"] = {"x": chosen, "seconds": [median_round(cnn, 8, per_round=k, **training_only)[0] for k in chosen]}
    samples = [150, 300, 600, 1200, 2400]
    results["n"] = {
        "x": samples,
        "seconds": [median_round(cnn, 8, samples_per_client=n, **training_only)[0] for n in samples],
    }
    widths = [100, 200, 400, 800, 1600]
    sized = [median_round(CASES["mlp"], 8, module=one_hidden_layer(width), **training_only) for width in widths]
    results["w"] = {"x": [size for _, size in sized], "seconds": [seconds for seconds, _ in sized]}
    return results


def one_hidden_layer(width: int) -> nn.Module:
    """The paper's MLP has 100 hidden units; this has as many as you like."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def layers_of_cnn() -> list[dict[str, Any]]:
    """Where a training step of the CNN spends its time, operation by operation (batch of 50, one thread)."""
    case = CASES["cnn"]
    federation = case.federation()
    flat = FlatModel(federation.module, case.shape)
    momentum = torch.zeros_like(flat.w)
    x, y = torch.randn(50, *case.shape), torch.randint(0, 10, (50,))

    def step() -> None:
        flat.g.zero_()
        functional.cross_entropy(flat.module(x), y).backward()  # type: ignore[no-untyped-call]
        sgd_step(flat.w, flat.g, momentum, lr=0.01, beta=0.9, decay=0.0)

    interleaved({"warm": step}, 30)
    steps = 50
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        for _ in range(steps):
            step()
    events = sorted(profiled.key_averages(group_by_input_shape=True), key=lambda e: -e.self_cpu_time_total)
    whole = sum(event.self_cpu_time_total for event in events)
    return [
        {
            "operation": event.key,
            "shapes": str([shape for shape in event.input_shapes if shape]),
            "microseconds": event.self_cpu_time_total / steps,
            "share": event.self_cpu_time_total / whole,
        }
        for event in events[:14]
    ]
