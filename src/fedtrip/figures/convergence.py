"""The convergence plot: the test score over rounds, a line for each variant and a band for its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import matplotlib.ticker
from matplotlib.figure import Figure

from fedtrip.figures.curves import common_rounds
from fedtrip.figures.palette import look
from fedtrip.files.atomic import replacing
from fedtrip.runs.history import History


def draw_convergence(results: Mapping[str, Sequence[History]], path: Path, title: str) -> None:
    """Mean over trials with a band from the lowest to the highest trial; the target as a dotted line."""
    goal = next(run.goal for runs in results.values() for run in runs)
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.2, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for number, (label, runs) in enumerate(results.items()):
            rounds, scores = common_rounds(runs)
            colour, style = look(number)
            axes.plot(rounds, scores.mean(axis=0), style, color=colour, label=label, linewidth=1.6)
            if len(runs) > 1:
                axes.fill_between(rounds, scores.min(0), scores.max(0), color=colour, alpha=0.13, linewidth=0)
        targets = {run.experiment.target for runs in results.values() for run in runs} - {None}
        for target in sorted(t for t in targets if t is not None):
            axes.axhline(target, color="0.35", linestyle=":", linewidth=1)
            axes.annotate(f"target {goal.shown_target(target)}", (0.005, target), xycoords=("axes fraction", "data"),
                          ha="left", va="bottom", fontsize=8, color="0.35")  # fmt: skip
        trials = {len(runs) for runs in results.values()}
        band = f"; mean and range of {max(trials)} trials" if max(trials) > 1 else ""
        axes.set(xlabel="communication round", ylabel=f"test {goal.score}", title=title + band)
        axes.title.set_fontsize(10)
        if goal.is_share:
            axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(frameon=False, ncols=2 if len(results) > 8 else 1, loc="best")
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=160)
