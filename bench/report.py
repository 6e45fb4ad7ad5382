"""The measurements as a page and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

AIMS = {"mlp": (3.7, 5.0), "cnn": (1.6, 3.0), "alexnet": (1.6, 2.8)}
ATTACHING_AIMS = {"mlp": 1.04, "cnn": 1.01, "alexnet": 1.01}
SETTINGS = {
    "mlp": "600 samples a client, 10,000 test images",
    "cnn": "600 samples a client, 10,000 test images",
    "alexnet": "500 samples a client, 2,500 test images",
}


def write_report(results: dict[str, Any]) -> str:
    """bench/README.md."""
    lines = [
        "# Speed",
        "",
        "Written by `make bench`; the raw numbers are in `results.json`. A ratio compares two things measured in turns",
        "in one run on one machine (2 cores); absolute times say little on noisy machines. The plain loop is",
        "[`plain.py`](plain.py): nn.Module, DataLoader (batch 50), optim.SGD, deepcopy, evaluation in batches of 1000",
        "under no_grad, one thread, inputs normalised beforehand. fedtrip writes metrics and a checkpoint every round.",
        f"Versions: {', '.join(f'{k} {v}' for k, v in results['versions'].items())}.",
        "",
        "## A whole round against the plain loop",
        "",
        "4 clients a round, one epoch, batch 50, FedAvg with momentum 0.9. Median of the ratios (quartiles).",
        "",
        "| model | setting | plain loop | 1 worker | aim | 2 workers | aim |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (aim_one, aim_two) in AIMS.items():
        case = results[name]
        one, two = case["ratio"]["1 worker"], case["ratio"]["2 workers"]
        lines.append(
            f"| {name} | {SETTINGS[name]} | {_seconds(case['seconds']['plain']['median'])} "
            f"| {_ratio(one)} | {aim_one}× | {_ratio(two)} | {aim_two}× |"
        )
    lines += [
        "",
        "## What a round of fedtrip is made of",
        "",
        "| model | workers | whole | training | evaluation | checkpoint | aggregation and the rest |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in AIMS:
        for workers, parts in results[name]["parts"].items():
            rest = parts["whole"] - parts["training"] - parts["evaluation"] - parts["checkpoint"]
            shares = [parts["training"], parts["evaluation"], parts["checkpoint"], rest]
            lines.append(
                f"| {name} | {workers.split()[0]} | {_seconds(parts['whole'])} | "
                + " | ".join(f"{share / parts['whole']:.1%}" for share in shares)
                + " |"
            )
    lines += [
        "",
        "Training and evaluation with two workers include the transport through shared memory.",
        "",
        "## A method's round against FedAvg's",
        "",
        "Training time of a round, one worker, the same momentum, medians of ratios.",
        "",
        "| model | fedtrip | aim | fedprox | feddyn |",
        "|---|---|---|---|---|",
    ]
    for name in AIMS:
        ratios = results[name]["attaching"]
        measured = [
            f"{ratios['fedtrip']:.3f}",
            ATTACHING_AIMS[name],
            f"{ratios['fedprox']:.3f}",
            f"{ratios['feddyn']:.3f}",
        ]
        lines.append(f"| {name} | {' | '.join(map(str, measured))} |")
    rate = results["sgemm_macs_per_second"]
    lines += [
        "",
        "## Against what the core can multiply",
        "",
        f"A 1024³ sgemm reaches {rate / 1e9:.0f} GMAC/s on one thread. Time of the round's multiply-adds at that rate",
        "over the time they took (one worker):",
        "",
        "| model | training | evaluation |",
        "|---|---|---|",
    ]
    for name in AIMS:
        case, parts = results[name], results[name]["parts"]["1 worker"]
        lines.append(
            f"| {name} | {case['training_macs'] / rate / parts['training']:.1%} "
            f"| {case['forward_macs'] / rate / parts['evaluation']:.1%} |"
        )
    million, alexnets = results["million"], results["fifty_alexnets"]
    lines += [
        "",
        "## How cost grows",
        "",
        "![time of a round against N, K, samples and model size](scaling.png)",
        "",
        f"A million clients, 100 a round, 100 rounds of FedTrip with the CNN (50 samples a client), 2 workers: "
        f"{million['gigabytes']:.2f} GB at most (all three processes), "
        f"{_seconds(million['seconds a round'])} a round.",
        "",
        f"50 clients with AlexNet ({alexnets['model_megabytes']:.0f} MB a model, of which each keeps one), 4 a round, "
        f"60 rounds: {alexnets['gigabytes']:.2f} GB.",
        "",
        "## Where a training step of the CNN spends its time",
        "",
        "Batch of 50, one thread, torch's profiler, own time of each operation.",
        "",
        "| operation | input shapes | µs | share |",
        "|---|---|---|---|",
    ]
    for row in results["layers"]:
        lines.append(f"| {row['operation']} | {row['shapes']} | {row['microseconds']:.0f} | {row['share']:.1%} |")
    return "\n".join(lines) + "\n"


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


def _ratio(value: dict[str, float]) -> str:
    return f"**{value['median']:.2f}×** ({value['low']:.2f}–{value['high']:.2f})"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"
