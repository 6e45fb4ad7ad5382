"""`fedtrip reproduce`: the paper's tables, computed again beside the printed ones."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from fedtrip.cli.console import out, print_json
from fedtrip.errors import UserError, unknown_name


def reproduce(
    name: Annotated[str | None, typer.Argument(help="table3, table5 or table8")] = None,
    published: Annotated[
        bool, typer.Option("--published", help="table5 from the rounds that the paper prints, without any run")
    ] = False,
    as_list: Annotated[bool, typer.Option("--list", help="name what can be reproduced")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> None:
    """Compute tables of the paper again, each cell beside the printed one.

    Tables 3 and 8 follow from the models and methods; Table 5 (GFLOPs) follows from the rounds of Table 4, as printed.

    Example: fedtrip reproduce table5 --published
    """
    from fedtrip.paper.tables import TABLES, as_records

    if as_list or name is None:
        for key, (title, _) in TABLES.items():
            out.print(f"[bold]{key}[/]  {title}")
        return
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    if name == "table5" and not published:
        raise UserError("table5 from our own runs is not there yet; accepted: table5 --published")
    title, compute = TABLES[name]
    cells = compute()
    if as_json:
        print_json({"name": name, "title": title, "cells": as_records(cells)})
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "", "printed", "computed", ""):
        table.add_column(column, justify="right" if column else "left")
    for cell in cells:
        mark = "✓" if cell.agrees else f"[yellow]≠[/] {cell.remark}"
        table.add_row(cell.row, cell.column, cell.printed, cell.computed, mark)
    out.print(table)
    out.print(f"{sum(cell.agrees for cell in cells)} of {len(cells)} cells agree to the printed digit.")
