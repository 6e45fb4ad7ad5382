"""The numbers behind the charts, as plain data for the page's script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtrip.figures.curves import common_rounds, mean_traffic
from fedtrip.figures.palette import FURTHER_STYLES, STYLES, Look, looks_of
from fedtrip.report.clients import ClientView
from fedtrip.report.parts import Part
from fedtrip.runs.history import History
from fedtrip.tasks.interface import Goal

DASHES = dict(
    zip((*STYLES, *FURTHER_STYLES), ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot"), strict=True)
)
"""The line styles as Plotly calls them."""
MOST_CLASSES = 40
"""Classes of a confusion matrix that are shown: more cannot be told apart on a screen."""


def chart_data(part: Part, clients: ClientView | None) -> dict[str, Any]:
    """Everything that a part's charts draw."""
    looks = looks_of(part.histories)
    return {
        "goal": goal_data(part.goal),
        "target": part.target,
        "variants": [_variant(looks[label], label, runs, clients) for label, runs in part.histories.items()],
        "labels": {} if clients is None else {str(seed): table.T.tolist() for seed, table in clients.counts.items()},
    }


def goal_data(goal: Goal) -> dict[str, Any]:
    """What a chart's axis needs to know of the score."""
    return {"score": goal.score, "share": goal.is_share}


def appearance(look: Look) -> dict[str, str]:
    """Colour on light and on dark ground, and line style, as the page's script has them."""
    return {"colour": look.colour, "dark": look.on_dark, "dash": DASHES[look.style]}


def _variant(look: Look, label: str, runs: Sequence[History], clients: ClientView | None) -> dict[str, Any]:
    of_seed = {} if clients is None else clients.accuracy.get(label, {})
    confusion = None if clients is None else clients.confusion.get(label)
    return {
        "label": label,
        **appearance(look),
        **_band(runs),
        "trials": [
            {
                "seed": run.experiment.seed,
                "reached": (reached := _reached(run)) is not None,
                "rounds": reached if reached is not None else run.experiment.rounds,
                "score": run.final_score,
            }
            for run in runs
        ],
        "clients": [
            {"seed": seed, "client": client, "accuracy": round(float(accuracy), 4)}
            for seed, accuracies in of_seed.items()
            for client, accuracy in enumerate(accuracies)
            if not math.isnan(accuracy)
        ],
        "confusion": None if confusion is None else confusion[1][:MOST_CLASSES, :MOST_CLASSES].tolist(),
    }


def _band(runs: Sequence[History]) -> dict[str, Any]:
    """Mean, lowest and highest score over the trials, and what had been spent by then."""
    rounds, scores = common_rounds(runs)
    traffic, gflops = mean_traffic(runs), runs[0].gflops_per_round
    return {
        "x": {
            "rounds": rounds.tolist(),
            "megabytes": [_significant(traffic[number]) for number in rounds.tolist()],
            "gflops": None if gflops is None else [_significant(gflops * number) for number in rounds.tolist()],
        },
        "mean": _numbers(scores.mean(axis=0)),
        "low": _numbers(scores.min(axis=0)),
        "high": _numbers(scores.max(axis=0)),
    }


def _reached(run: History) -> int | None:
    return None if run.experiment.target is None else run.rounds_to(run.experiment.target)


def _numbers(values: np.ndarray) -> list[float | None]:
    """Rounded to what can be seen; JSON has no not-a-number."""
    return [None if math.isnan(value) else round(float(value), 5) for value in values]


def _significant(value: float) -> float:
    return float(f"{value:.6g}")
