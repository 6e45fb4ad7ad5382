"""The convergence plot: the test score over rounds, a line for each variant and a band for its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
from matplotlib.axes import Axes

from fedtrip.figures.curves import common_rounds
from fedtrip.figures.drawing import Chart, save_figure
from fedtrip.figures.palette import look
from fedtrip.runs.history import History

SETTINGS: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}


def draw_convergence(results: Mapping[str, Sequence[History]], path: Path, title: str) -> None:
    """Write the plot; its format follows the name."""
    save_figure(convergence(results, title), path)


def convergence(
    results: Mapping[str, Sequence[History]], title: str = "", *, size: tuple[float, float] = (7.2, 4.5)
) -> Chart:
    """Mean over trials with a band from the lowest to the highest trial; the target as a dotted line."""
    goal = next(run.goal for runs in results.values() for run in runs)
    with matplotlib.rc_context(SETTINGS):
        figure = Chart(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        for number, (label, runs) in enumerate(results.items()):
            rounds, scores = common_rounds(runs)
            colour, style = look(number)
            axes.plot(rounds, scores.mean(axis=0), style, color=colour, label=label, linewidth=1.6)
            if len(runs) > 1:
                axes.fill_between(rounds, scores.min(0), scores.max(0), color=colour, alpha=0.13, linewidth=0)
        _draw_targets(axes, results)
        trials = {len(runs) for runs in results.values()}
        band = f"mean and range of {max(trials)} trials" if max(trials) > 1 else ""
        axes.set(
            xlabel="communication round", ylabel=f"test {goal.score}", title="; ".join(filter(None, [title, band]))
        )
        axes.title.set_fontsize(10)
        if goal.is_share:
            axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(frameon=False, ncols=2 if len(results) > 8 else 1, loc="best")
    return figure


def _draw_targets(axes: Axes, results: Mapping[str, Sequence[History]]) -> None:
    """A dotted line at the target, or at each of several."""
    runs = [run for some in results.values() for run in some]
    for target in sorted({run.experiment.target for run in runs if run.experiment.target is not None}):
        axes.axhline(target, color="0.35", linestyle=":", linewidth=1)
        axes.annotate(f"target {runs[0].goal.shown_target(target)}", (0.005, target),
                      xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=8, color="0.35")  # fmt: skip
