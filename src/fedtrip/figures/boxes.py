"""The trials as box plots: rounds to target and final score, a point for each run."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib
import matplotlib.ticker
from matplotlib.axes import Axes

from fedtrip.figures.convergence import LONGEST_LINE, SETTINGS
from fedtrip.figures.drawing import Chart
from fedtrip.figures.palette import Look, looks_of
from fedtrip.printable import one_line
from fedtrip.runs.history import History
from fedtrip.tasks.interface import Goal

ROW_INCHES = 0.34
"""Height of a variant's box."""


def boxes(results: Mapping[str, Sequence[History]], title: str = "") -> Chart:
    """A panel for the rounds to target, if there is a target, and one for the final score; variants from top to bottom.

    A cross is a run that never reached the target, at its last planned round.
    """
    goal = next(run.goal for runs in results.values() for run in runs)
    targets = {run.experiment.target for runs in results.values() for run in runs}
    with matplotlib.rc_context(SETTINGS):
        figure = Chart(figsize=(7.2, 1.3 + ROW_INCHES * len(results)), layout="constrained")
        panels = list(figure.subplots(1, 2 if targets != {None} else 1, squeeze=False, sharey=True).flat)
        known = looks_of(results)
        for place, (label, runs) in enumerate(results.items()):
            if len(panels) > 1:
                _draw_rounds(panels[0], place, runs, known[label])
            scores = [run.final_score for run in runs if run.final_score is not None]
            _draw_box(panels[-1], place, scores, known[label])
            panels[-1].plot(scores, [place] * len(scores), "o", color=known[label].colour, markersize=4)
        if len(panels) > 1:
            only = targets.pop() if len(targets) == 1 else None
            panels[0].set_xlabel(f"rounds to {'target' if only is None else goal.shown_target(only)}")
            panels[0].set_xlim(left=0)
        _finish(panels, list(results), goal)
        if title:
            figure.suptitle(title, fontsize=10)
    return figure


def _draw_rounds(panel: Axes, place: int, runs: Sequence[History], look: Look) -> None:
    """The rounds to target of a variant's runs."""
    reached: list[float] = []
    missed: list[float] = []
    for run in runs:
        target = run.experiment.target
        found = None if target is None else run.rounds_to(target)
        if target is not None:
            (missed if found is None else reached).append(run.experiment.rounds if found is None else found)
    _draw_box(panel, place, [*reached, *missed], look)
    panel.plot(reached, [place] * len(reached), "o", color=look.colour, markersize=4)
    panel.plot(missed, [place] * len(missed), "x", color=look.colour, markersize=6)


def _draw_box(panel: Axes, place: int, values: Sequence[float], look: Look) -> None:
    """Quartiles and median, and a line to the farthest of the values."""
    if len(values) < 2:
        return
    line = {"color": look.colour, "linewidth": 1.1}
    panel.boxplot(
        values, positions=[place], orientation="horizontal", widths=0.55, showfliers=False, whis=(0, 100),
        patch_artist=True, boxprops={"facecolor": f"{look.colour}22", "edgecolor": look.colour},
        medianprops={**line, "linewidth": 1.6}, whiskerprops=line, capprops=line,
    )  # fmt: skip


def _finish(panels: Sequence[Axes], labels: Sequence[str], goal: Goal) -> None:
    panels[-1].set_xlabel(f"final {goal.score}")
    if goal.is_share:
        panels[-1].xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))
    names = ["\n".join(textwrap.wrap(one_line(label), LONGEST_LINE)) for label in labels]
    panels[0].set_yticks(range(len(labels)), names)
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    for panel in panels:
        panel.grid(axis="x", alpha=0.25, linewidth=0.6)
        panel.tick_params(axis="y", length=0)
