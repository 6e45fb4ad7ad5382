"""A comparison's table on the terminal: what does not fit is left out whole, the least telling columns first."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from fedtrip.comparison.tables import Column
    from fedtrip.comparison.variants import Row

WIDE = 110
"""Columns from which the terminal's table has room for the deviations of the costs; table.md always has them."""
LONGEST_LINE = 28
"""Characters after which a label goes on in the next line, between two words, so that it leaves room for numbers."""


def print_table(console: Console, rows: Sequence[Row], file: str) -> None:
    """The table, how to read it, and which columns there was no room for: `file` has them all."""
    from fedtrip.comparison.tables import columns, note

    wide = console.width >= WIDE
    shown, left_out = fitting(console, rows, [column for column in columns(rows) if column.importance], wide)
    console.print(_table(rows, shown, wide))
    told = note(rows, shown)
    if left_out:
        titles = ", ".join(column.title for column in left_out)
        told += f" Left out for want of room, but in {file}: {titles}."
    console.print(told, style="dim", markup=False)


def fitting(
    console: Console, rows: Sequence[Row], wanted: Sequence[Column], wide: bool
) -> tuple[list[Column], list[Column]]:
    """The columns that the terminal has room for, and the others."""
    shown, endless = list(wanted), console.options.update(max_width=10_000)
    while len(shown) > 2 and console.measure(_table(rows, shown, wide), options=endless).maximum > console.width:
        shown.remove(min(shown, key=lambda column: column.importance))
    return shown, [column for column in wanted if column not in shown]


def print_further_columns(console: Console, rows: Sequence[Row]) -> None:
    """What the other table never has, as one of its own."""
    from fedtrip.comparison.tables import columns

    name, *others = columns(rows)
    rest = [column for column in others if not column.importance]
    console.print(_table(rows, [name, *rest], wide=True))
    console.print(" ".join(column.note for column in rest), style="dim", markup=False)


def _table(rows: Sequence[Row], shown: Sequence[Column], wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1 if wide else 0, 0, 1), pad_edge=False)
    name, *others = shown
    table.add_column(name.title, overflow="fold")
    for column in others:
        table.add_column(column.title.replace(" ", "\n", 1), justify="right", no_wrap=True)
    best = min((row.rounds.mean for row in rows if not row.censored), default=None)
    for row in rows:
        label = textwrap.wrap(name.cell(row), LONGEST_LINE, break_long_words=False, break_on_hyphens=False)
        table.add_row(
            escape("\n".join(label)),
            *(escape(column.cell(row, brief=not wide)) for column in others),
            style="bold" if row.rounds.mean == best and not row.censored else "",
        )
    return table
