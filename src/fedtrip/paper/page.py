"""What an entry writes: a Markdown table to read, and the same numbers as CSV and JSON, one record a cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtrip.files import write_json, write_text
from fedtrip.statistics import Estimate
from fedtrip.tables import markdown_row

MISSING = "–"


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
        parts = [f"# {self.title}", self.markdown(), *self.notes, *(f"![{self.title}]({f}.png)" for f in self.figures)]
        write_text(folder / "table.md", "\n\n".join(part for part in parts if part) + "\n")
        write_json(folder / "table.json", {"title": self.title, "notes": self.notes, "cells": list(self.records)})
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


def spread(value: Estimate, digits: int = 1, scale: float = 1.0, *, bound: str = "") -> str:
    """Mean ± standard deviation."""
    mean = f"{bound}{value.mean * scale:,.{digits}f}"
    return mean if value.std is None else f"{mean} ± {value.std * scale:,.{digits}f}"


def points(mean: float, low: float | None = None, high: float | None = None) -> str:
    """A difference of accuracies in percentage points, with its interval if there is one."""
    shown = [f"{100 * value:+.2f}".replace("-", "−") for value in (mean, low, high) if value is not None]
    return shown[0] if len(shown) == 1 else f"{shown[0]} [{shown[1]}, {shown[2]}]"
