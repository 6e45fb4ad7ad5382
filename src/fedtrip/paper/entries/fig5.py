"""Figure 5: convergence of the CNN on three data sets under Dir-0.5 and Orthogonal-5, smoothed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from fedtrip.figures.curves import common_rounds
from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.figures.palette import look
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.measures import final_accuracy, shown_final
from fedtrip.paper.page import Page
from fedtrip.paper.settings import DATASET_TITLES, METHOD_TITLES, PARTITION_TITLES, short, six_methods
from fedtrip.runs.history import History

DATASETS = ("mnist", "fashion-mnist", "emnist47")
PARTITIONS = ("dirichlet:0.5", "orthogonal:5")
SMOOTHING = 0.8
"""Weight of the past in the exponential moving average; the paper does not say its own."""
NOTE = (
    f"Curves: mean over trials of the test accuracy smoothed by an exponential moving average (weight {SMOOTHING} on "
    "the past, corrected at the start); bands: lowest to highest trial. The table: accuracy over the last 10 rounds, "
    "unsmoothed, mean ± standard deviation (trials)."
)


def case_name(dataset: str, partition: str) -> str:
    return f"{short(dataset)}-{short(partition)}"


def lines() -> tuple[Line, ...]:
    return tuple(
        line
        for partition in PARTITIONS
        for dataset in DATASETS
        for line in six_methods(case_name(dataset, partition), dataset, "cnn", partition=partition)
    )


def smoothed(accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """s_t = Σ β^{t−i}·x_i / Σ β^{t−i} along the last axis: a moving average without a bias at the start."""
    result, total, weight = np.empty_like(accuracy), np.zeros(accuracy.shape[:-1]), 0.0
    for t in range(accuracy.shape[-1]):
        total, weight = SMOOTHING * total + accuracy[..., t], SMOOTHING * weight + 1.0
        result[..., t] = total / weight
    return result


def write(findings: Findings, folder: Path) -> None:
    page = Page(
        "Figure 5: convergence of the CNN", ["case", "method", "final accuracy %"], notes=[NOTE],
        figures=["convergence"],
    )  # fmt: skip
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 6.2), layout="constrained")
        panels = figure.subplots(len(PARTITIONS), len(DATASETS), squeeze=False)
        for row, partition in enumerate(PARTITIONS):
            for column, dataset in enumerate(DATASETS):
                case, panel = case_name(dataset, partition), panels[row][column]
                panel.set_title(f"{DATASET_TITLES[dataset]} under {PARTITION_TITLES[partition]}")
                panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
                panel.set(xlabel="communication round", ylabel="test accuracy" if column == 0 else "")
                if not findings.labels(case):
                    panel.text(0.5, 0.5, "no finished run", ha="center", transform=panel.transAxes, color="0.5")
                for number, label in enumerate(METHOD_TITLES.values()):
                    runs: Sequence[History] = list(findings.runs(case, label).values())
                    if not runs:
                        continue
                    rounds, accuracy = common_rounds(runs)
                    smooth = smoothed(accuracy)
                    colour, style = look(number)
                    panel.plot(rounds, smooth.mean(0), linestyle=style, color=colour, label=label, linewidth=1.4)
                    panel.fill_between(rounds, smooth.min(0), smooth.max(0), color=colour, alpha=0.1, lw=0)
                    final = final_accuracy(runs)
                    page.rows.append([case, label, f"{shown_final(runs)} ({len(runs)})"])
                    page.records.append(
                        {"case": case, "method": label, "trials": len(runs), "final_accuracy_mean": final.mean,
                         "final_accuracy_std": final.std, "smoothed": [round(x, 5) for x in smooth.mean(0)]}
                    )  # fmt: skip
        known: dict[str, Any] = {}
        for panel in figure.axes:
            known |= {label: line for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
        figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=6)
        save_both(figure, folder / "convergence")
    page.write(folder)


ENTRY = Entry("fig5", "Figure 5: convergence curves, CNN, 3 data sets × 2 heterogeneities", write, lines())
