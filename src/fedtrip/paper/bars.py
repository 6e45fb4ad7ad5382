"""Bars in pairs, ours beside the paper's: how Tables 4 and 6 are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedtrip.figures.drawing import STYLE, save_both
from fedtrip.paper.measures import Rounds

OURS, PAPER = "#0072B2", "#bfc5cc"
COLUMNS = 3
Pair = tuple[Rounds | None, float | None]
"""ours and the paper's; None for what is not there"""


def draw_rounds(cases: Mapping[str, Mapping[str, Pair]], stem: Path, what: str) -> None:
    """A panel for each case, a pair of bars for each method."""
    with matplotlib.rc_context({**STYLE, "axes.grid.axis": "x"}):
        columns = min(COLUMNS, len(cases))
        rows = -(-len(cases) // columns)
        figure = Figure(figsize=(3.1 * columns, 2.3 * rows + 0.4), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).flat
        for panel, (title, bars) in zip(panels, cases.items(), strict=False):
            places = np.arange(len(bars))
            ours, spread, papers = np.array([lengths(*pair) for pair in bars.values()], float).T
            panel.barh(places - 0.2, ours, 0.38, xerr=spread, color=OURS, ecolor="0.25", label="ours ± s.d.",
                       error_kw={"linewidth": 0.9, "capsize": 2})  # fmt: skip
            panel.barh(places + 0.2, papers, 0.38, color=PAPER, label="paper")
            panel.set_yticks(places, list(bars))
            panel.invert_yaxis()
            panel.tick_params(axis="y", length=0)
            panel.set_title(title)
            panel.set_xlabel(what)
        for unused in list(figure.axes)[len(cases) :]:
            unused.set_axis_off()
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        save_both(figure, stem)


def lengths(ours: Rounds | None, paper: float | None) -> tuple[float | None, float | None, float | None]:
    """Our bar, its error bar and the paper's; None becomes not a number in an array and is not drawn."""
    return (None, None, paper) if ours is None else (ours.estimate.mean, ours.estimate.std, paper)
