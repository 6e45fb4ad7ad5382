"""The paper's Figure 4: which classes the clients hold, one circle for each client and class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fedtrip.errors import UserError
from fedtrip.figures.drawing import FORMATS, save_figure

COLOUR = "#2f6db3"
GRID = "#e4e7eb"
LARGEST_CIRCLE = 0.95  # diameter of the circle for the largest count, as a part of a cell of the grid
PANEL_INCHES = 3.2  # side of a panel's grid as long as its cells stay large enough
SMALLEST_CELL = 0.15  # inches; a panel with more clients or classes grows
LARGEST_CELL = 0.5  # inches; with few clients and classes circles keep this size
WIDEST_FIGURE = 17.0  # inches; wider panels go below each other


def draw_label_distribution(counts: Mapping[str, NDArray[Any]], path: Path, kind: str = "class") -> None:
    """Draw one panel for each setting (title → counts, clients × classes) in the format of the suffix of `path`.

    Clients are on x and classes (or what else `kind` says) on y, both numbered from 0. The area of a circle is
    proportional to its number of samples, with one scale for all panels: area = largest area · count / largest count.
    """
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"figure '{path}' has the suffix '{path.suffix}'; accepted: {', '.join(FORMATS)}")
    if not counts:
        raise UserError("the figure of label distributions has no settings; accepted: at least one")
    for title, table in counts.items():
        if table.ndim != 2 or table.size == 0 or table.min() < 0 or table.max() == 0:
            raise UserError(
                f"counts of '{title}' with shape {table.shape} cannot be drawn; accepted: a table clients × classes "
                "without negative numbers and with at least one sample"
            )
    save_figure(_figure(counts, kind), path)


def _figure(counts: Mapping[str, NDArray[Any]], kind: str = "class") -> Figure:
    clients = max(table.shape[0] for table in counts.values())
    classes = max(table.shape[1] for table in counts.values())
    largest = max(int(table.max()) for table in counts.values())
    # Cells are squares where they can be, and at most 1.6 times as high as wide (or the other way round).
    wide, high = (max(SMALLEST_CELL, PANEL_INCHES / number) for number in (clients, classes))
    cell_width, cell_height = min(wide, 1.6 * high), min(high, 1.6 * wide)
    width, height = clients * cell_width + 0.75, classes * cell_height + 0.85
    columns = {1: 1, 2: 2, 4: 2}.get(len(counts), 3)
    columns = max(1, min(columns, int(WIDEST_FIGURE / width)))
    rows = math.ceil(len(counts) / columns)
    figure = Figure(figsize=(columns * width, rows * height + 0.5), layout="constrained")
    diameter = LARGEST_CIRCLE * 72 * min(cell_width, cell_height, LARGEST_CELL)  # in points, as `scatter` wants it
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, (title, table) in zip(panels, counts.items(), strict=False):
        _draw_panel(panel, title, table, diameter**2 / largest, kind)
    for unused in panels[len(counts) :]:
        unused.set_axis_off()
    _draw_scale(figure, largest, diameter)
    return figure


def _draw_panel(panel: Axes, title: str, table: NDArray[Any], area_per_sample: float, kind: str) -> None:
    clients, classes = table.shape
    client, label = np.nonzero(table)
    panel.set_axisbelow(True)
    panel.grid(color=GRID, linewidth=0.6)
    panel.scatter(client, label, s=table[client, label] * area_per_sample, color=COLOUR, alpha=0.85, linewidths=0)
    panel.set(xlim=(-0.6, clients - 0.4), ylim=(-0.6, classes - 0.4), xlabel="client", ylabel=kind)
    panel.set_title(title, fontsize=11)
    panel.set_xticks(np.arange(0, clients, _tick_step(clients)))
    panel.set_yticks(np.arange(0, classes, _tick_step(classes)))
    panel.tick_params(length=0, labelsize=8.5)
    for spine in panel.spines.values():
        spine.set_color("#9aa3ad")


def _draw_scale(figure: Figure, largest: int, diameter: float) -> None:
    """A line below the panels that says which area is how many samples."""
    shown = sorted({_rounded(largest * part) for part in (0.1, 0.4, 1.0)})
    circles = [
        Line2D(
            [], [], linestyle="", marker="o", color=COLOUR, alpha=0.85, markeredgewidth=0, label=f"{number:,}",
            markersize=diameter * math.sqrt(number / largest),
        )
        for number in shown
    ]  # fmt: skip
    figure.legend(
        handles=circles, loc="outside lower center", ncols=len(circles), frameon=False, fontsize=9,
        title="samples", title_fontsize=9, columnspacing=1.5, borderaxespad=0.3,
        handlelength=diameter / 9, handleheight=diameter / 9,  # both in units of the font size: room for the largest
    )  # fmt: skip


def _rounded(number: float) -> int:
    """The number with one significant digit, and at least 1."""
    return max(1, round(float(f"{number:.0e}")))


def _tick_step(count: int) -> int:
    """Every tick up to 12 of them, else every second, fifth, tenth, … so that about 12 are left."""
    step = 1
    while count / step > 12:
        step = int(step * (2.5 if str(step)[0] == "2" else 2))
    return step
