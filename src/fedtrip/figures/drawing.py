"""How figures are written: PNG to look at, PDF and SVG for a paper, the same bytes for the same content."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from fedtrip.files.atomic import replacing

FORMATS = (".png", ".pdf", ".svg")
BOTH = (".png", ".svg")
"""What the paper's record has of each figure."""
DATELESS: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
"""Of the figures with axes, as matplotlib's settings."""


class Chart(Figure):
    """A figure that a notebook shows as it is, whether or not somebody imported pyplot there."""

    def _repr_png_(self) -> bytes:
        return as_png(self)


def as_png(figure: Figure, dpi: int = 110) -> bytes:
    """The figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure beside its place, then move it there: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.lower()[1:]
    # An SVG would hold the date and random ids, a PDF the date: without them the same content gives the same file.
    # Type 42 are the fonts themselves: many publishers refuse matplotlib's Type 3.
    with replacing(path) as temporary, mpl.rc_context({"svg.hashsalt": "fedtrip", "pdf.fonttype": 42}):
        figure.savefig(temporary, format=kind, dpi=160, metadata=DATELESS.get(kind))


def save_figures(figure: Figure, path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Write the figure in each format, with the name of `path`."""
    for suffix in formats:
        save_figure(figure, path.with_suffix(suffix))


def save_both(figure: Figure, stem: Path) -> None:
    """Write the figure as STEM.png and STEM.svg."""
    for suffix in BOTH:
        save_figure(figure, stem.with_name(stem.name + suffix))
