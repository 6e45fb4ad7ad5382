"""The race as a page."""

from __future__ import annotations

import statistics
from typing import Any

from bench.race.task import BATCH, CLIENTS, LR, MOMENTUM, PER_ROUND, SAMPLES
from bench.race.verdict import agree
from fedtrip.statistics import estimate

OURS = "fedtrip"


def write_page(results: dict[str, Any]) -> str:
    """bench/RACE.md."""
    lines = [
        "# The same task on other simulators",
        "",
        "Written by `make race`, which makes an environment for each of them under `build/race/`; the numbers are in",
        f"`race.json`. FedAvg with the paper's MLP and CNN on MNIST: {CLIENTS} clients with {SAMPLES} samples each",
        f"(one file that all read), {PER_ROUND} a round, batch {BATCH}, learning rate {LR}, momentum {MOMENTUM}, one",
        f"epoch, {results['rounds']} rounds, the global model evaluated on the 10,000 test images every round. Each",
        "program is written as its simulator's own documentation advises for speed on one machine:",
        "[`run_fedtrip.py`](race/run_fedtrip.py), [`run_flower.py`](race/run_flower.py),",
        "[`run_pfl.py`](race/run_pfl.py). Times count only where the accuracy after the last round agrees with ours:",
        "Welch's 95 % interval of the difference holds 0, or the means are at most half a point apart.",
        "",
        f"CPU: {results['cpu']}, {results['cores']} cores; our kernels: {results['kernels']}. "
        f"Versions: {', '.join(f'{name} {version}' for name, version in results['versions'].items())}.",
        "",
        "| model | simulator | runs | accuracy | agrees | a round (not the first) | | from start to end | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for model in results["runs"][OURS]:
        ours = results["runs"][OURS][model]
        for name, runs in results["runs"].items():
            if runs[model] and ours:
                lines.append(_row(model, name, runs[model], ours))
    failed = {name: why for name, why in results["problems"].items() if why is not None}
    if failed:
        lines += ["", "Not run to the end here:", ""]
        lines += [f"- {name}: `{why}`" for name, why in failed.items()]
    lines += [
        "",
        "All begin with the same weights, and draw the clients of a round and their batches in their own ways. Flower",
        "evaluates the initial model too, and pfl does in place of the model after the first round, which the time of",
        "a round leaves out. fedtrip runs without a folder to write to, as the others do.",
    ]
    return "\n".join(lines) + "\n"


def _row(model: str, name: str, runs: list[dict[str, float]], ours: list[dict[str, float]]) -> str:
    values, reference = ([run["accuracy"] for run in each] for each in (runs, ours))
    known = estimate(values)
    spread = "" if known.std is None else f" ± {known.std:.2%}"
    cells = [model.upper(), name, str(len(runs)), f"{known.mean:.2%}{spread}"]
    counts = name == OURS or (len(runs) > 1 and agree(reference, values))
    cells.append("–" if name == OURS else "yes" if counts else "no: times do not count")
    for what in ("round", "wall"):
        median, base = (statistics.median(run[what] for run in each) for each in (runs, ours))
        times = "" if name == OURS else f"{median / base:.1f}× ours"
        cells += [_seconds(median), times] if counts else ["–", ""]
    return "| " + " | ".join(cells) + " |"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"
