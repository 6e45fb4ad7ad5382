"""What an entry writes: a Markdown table to read, and the same numbers as CSV and JSON, one record a cell."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtrip.comparison.tables import BOUND_WORDS, markdown_row
from fedtrip.files.atomic import write_json, write_text
from fedtrip.statistics import Estimate

MISSING = "–"
ENDED = "†"
"""Behind a number in which the last values of a run that diverged stand in for those that it never had."""


@dataclass
class Page:
    """One entry's table: `header` and `rows` for people, `records` for programs."""

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    records: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: Sequence[str] = ()
    """stems of the figures beside it"""

    def write(self, folder: Path) -> None:
        """table.md, table.csv and table.json."""
        marks = note_on_marks("\n".join([self.markdown(), *self.notes]))
        notes = [note for note in [*self.notes, marks] if note]
        parts = [f"# {self.title}", self.markdown(), *notes, *(f"![{self.title}]({f}.png)" for f in self.figures)]
        write_text(folder / "table.md", "\n\n".join(part for part in parts if part) + "\n")
        write_json(folder / "table.json", {"title": self.title, "notes": notes, "cells": list(self.records)})
        buffer = io.StringIO()
        names = list(dict.fromkeys(name for record in self.records for name in record))
        writer = csv.DictWriter(buffer, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        write_text(folder / "table.csv", buffer.getvalue())

    def markdown(self) -> str:
        """The table alone."""
        if not self.rows:
            return "No run is finished yet." if not self.records else ""
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        return "\n".join(map(markdown_row, lines))


def note_on_marks(tables: str) -> str:
    """What the marks of some Markdown tables mean, of those that are there."""
    found = re.findall(r"\| ([<>?])[\d,]+\.\d", tables)
    meant = [words for mark, words in BOUND_WORDS.items() if mark in found]
    told = []
    if meant:
        told.append(
            "A run that never reached the target counts as its last round; the truth is then "
            f"{' or '.join(meant)} what is shown."
        )
    if re.search(r"[×\]] \(\d+ of \d+\)", tables):
        told.append("(n of m) behind a ratio: on the other seeds neither run reached the target, which says nothing.")
    if ENDED in tables:
        told.append(f"{ENDED}: a run ended early because no upload was finite; its last values stand in.")
    return " ".join(told)


def spread(value: Estimate, digits: int = 1, scale: float = 1.0, *, bound: str = "") -> str:
    """Mean ± standard deviation."""
    mean = f"{bound}{value.mean * scale:,.{digits}f}"
    return mean if value.std is None else f"{mean} ± {value.std * scale:,.{digits}f}"


def points(mean: float, low: float | None = None, high: float | None = None) -> str:
    """A difference of accuracies in percentage points, with its interval if there is one."""
    shown = [f"{100 * value:+.2f}".replace("-", "−") for value in (mean, low, high) if value is not None]
    return shown[0] if len(shown) == 1 else f"{shown[0]} [{shown[1]}, {shown[2]}]"
