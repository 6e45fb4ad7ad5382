"""Tables that need no run: 2 (data sets), 3 (models) and 8 (attaching operations)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.paper.entry import Entry, Findings
from fedtrip.paper.page import Page
from fedtrip.paper.published import published
from fedtrip.paper.settings import DATASET_TITLES, OURS
from fedtrip.paper.tables import Cell, table3, table8


def table2() -> list[Cell]:
    """Data sets: samples, classes, channels and samples a client, beside what is used here."""
    cells = []
    for name, printed in published()["table2"].items():
        if name == "place":
            continue
        used = OURS.get(name, name)
        known = KNOWN_SETS[used]
        ours = {"samples": known.train, "classes": known.classes, "channels": known.shape[0],
                "client_samples": known.samples_per_client}  # fmt: skip
        remark = "" if used == name else f"{DATASET_TITLES[used]} stands for {DATASET_TITLES[name]}'s balanced split"
        for column, value in ours.items():
            paper, same = printed[column], printed[column] == value
            title = column.replace("_", " ")
            cells.append(
                Cell(DATASET_TITLES[name], title, f"{paper:,}", f"{value:,}", value, same, "" if same else remark)
            )
    return cells


def write(title: str, compute: Callable[[], list[Cell]], findings: Findings, folder: Path) -> None:  # noqa: ARG001
    cells = compute()
    page = Page(title, ["", "", "paper", "computed", ""])
    page.rows = [[c.row, c.column, c.printed, c.computed, "✓" if c.agrees else f"≠ {c.remark}"] for c in cells]
    page.records = [asdict(cell) for cell in cells]
    page.write(folder)


def _entry(name: str, title: str, compute: Callable[[], list[Cell]]) -> Entry:
    return Entry(name, title, partial(write, title, compute))


TABLE2 = _entry("table2", "Table 2: data sets", table2)
TABLE3 = _entry("table3", "Table 3: models", table3)
TABLE8 = _entry("table8", "Table 8: attaching operations of one client and round", table8)
