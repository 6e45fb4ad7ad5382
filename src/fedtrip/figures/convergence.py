"""The convergence plot: the test score over rounds, a line for each variant and a band for its trials."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedtrip.figures.curves import common_rounds
from fedtrip.figures.drawing import Chart
from fedtrip.figures.palette import looks_of
from fedtrip.printable import one_line
from fedtrip.runs.history import History

SETTINGS: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False}
"""A dollar sign in the name of a file or method is a dollar sign."""
FEW = 8
"""So many lines have their legend within the plot."""
MOST_ROWS = 24
BESIDE = 1.6
"""Inches more for a column of the legend beside it."""
LONGEST_LINE = 30
"""Characters of a label's line."""


def convergence(
    results: Mapping[str, Sequence[History]], title: str = "", *, size: tuple[float, float] = (7.2, 4.5)
) -> Chart:
    """Mean over trials with a band from the lowest to the highest trial; the target as a dotted line."""
    goal = next(run.goal for runs in results.values() for run in runs)
    with matplotlib.rc_context(SETTINGS):
        figure = Chart(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        known, lines = looks_of(results), {}
        for label, runs in results.items():
            rounds, scores = common_rounds(runs)
            colour, style = known[label]
            (lines[label],) = axes.plot(rounds, scores.mean(axis=0), linestyle=style, color=colour, linewidth=1.6)
            if len(runs) > 1:
                alpha = 0.13 if len(results) <= FEW else 0.06
                axes.fill_between(rounds, scores.min(0), scores.max(0), color=colour, alpha=alpha, linewidth=0)
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
        add_legend(figure, axes, lines)
    return figure


def add_legend(figure: Figure, axes: Axes, handles: Mapping[str, Artist]) -> None:
    """Who is who: within the plot if there are few, else beside it, where it covers nothing."""
    width, height = figure.get_size_inches()
    shown: dict[str, Any] = {"frameon": False, "handlelength": 3.0}
    placeholders = [str(number) for number in range(len(handles))]  # a label that begins with _ would be left out
    if len(handles) <= FEW:
        legend = axes.legend(list(handles.values()), placeholders, loc="best", **shown)
    else:
        shown |= {"fontsize": 8.5, "labelspacing": min(0.5, 4.5 / len(handles)), "ncols": -(-len(handles) // MOST_ROWS)}
        legend = figure.legend(list(handles.values()), placeholders, loc="outside right upper", **shown)
        figure.set_size_inches(width + BESIDE * shown["ncols"], height)
    for text, label in zip(legend.get_texts(), handles, strict=True):
        text.set_text("\n".join(textwrap.wrap(one_line(label), LONGEST_LINE)))


def _draw_targets(axes: Axes, results: Mapping[str, Sequence[History]]) -> None:
    """A dotted line at the target, or at each of several."""
    runs = [run for some in results.values() for run in some]
    for target in sorted({run.experiment.target for run in runs if run.experiment.target is not None}):
        axes.axhline(target, color="0.35", linestyle=":", linewidth=1)
        axes.annotate(f"target {runs[0].goal.shown_target(target)}", (0.005, target),
                      xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=8, color="0.35")  # fmt: skip
