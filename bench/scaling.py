"""Seconds of a round against the size of the federation, and a figure of them."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from torch import nn

from bench.cases import CASES, Case, fedtrip_rounds
from bench.turns import Work, interleaved


def scaling(turns: int) -> dict[str, dict[str, Any]]:
    """Against the number of clients N, the clients a round K, the samples a client n, and the parameters |w|."""
    cnn, mlp = CASES["cnn"], CASES["mlp"]
    training_only: dict[str, Any] = {"eval_every": 10_000, "clients": 20}

    def median_round(case: Case, module: nn.Module | None = None, **changes: object) -> tuple[float, int]:
        changes = {"partition": "dirichlet:0.5", "draw": "overlap", "method": "fedtrip", **changes}
        federation = case.federation(module, **changes)
        with fedtrip_rounds(federation, 1) as running:
            seconds = interleaved({"round": Work(running.round)}, turns)["round"]
        return statistics.median(seconds), sum(p.numel() for p in federation.module.parameters())

    clients, chosen, samples = (
        [10, 100, 1_000, 10_000, 100_000, 1_000_000],
        [1, 2, 4, 8, 16],
        [150, 300, 600, 1200, 2400],
    )
    sized = [median_round(mlp, one_hidden_layer(width), **training_only) for width in (100, 200, 400, 800, 1600)]
    return {
        "N": {"x": clients, "seconds": [median_round(cnn, clients=n)[0] for n in clients]},
        "K": {"x": chosen, "seconds": [median_round(cnn, per_round=k, **training_only)[0] for k in chosen]},
        "n": {"x": samples, "seconds": [median_round(cnn, samples_per_client=n, **training_only)[0] for n in samples]},
        "w": {"x": [size for _, size in sized], "seconds": [seconds for seconds, _ in sized]},
    }


def one_hidden_layer(width: int) -> nn.Module:
    """The paper's MLP has 100 hidden units; this has as many as you like."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def draw_scaling(scaling: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Four panels: N, K, samples, |w|."""
    titles = {
        "N": ("clients in all, N", "4 of N clients a round, with evaluation"),
        "K": ("clients a round, K", "training only"),
        "n": ("samples a client, n", "training only, 4 clients a round"),
        "w": ("parameters, |w|", "training only, one hidden layer"),
    }
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    for number, (key, (label, title)) in enumerate(titles.items()):
        axes = figure.add_subplot(1, 4, number + 1)
        x, milliseconds = scaling[key]["x"], [1e3 * s for s in scaling[key]["seconds"]]
        axes.plot(x, milliseconds, "o-", color="#0072B2", label="measured")
        if key == "N":
            axes.set_xscale("log")
        else:
            middle = len(x) // 2
            axes.plot(x, [milliseconds[middle] * value / x[middle] for value in x], ":", color="0.4", label="linear")
            axes.legend(frameon=False)
        axes.set(xlabel=label, ylabel="ms a round", title=title, ylim=(0, 1.1 * max(milliseconds)))
        axes.title.set_fontsize(9)
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=140)
