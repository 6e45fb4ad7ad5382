"""`fedtrip export`: a table or figure of stored runs, for a paper or another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedtrip.cli.console import err
from fedtrip.cli.options import absolute
from fedtrip.errors import UserError
from fedtrip.printable import printable


def export(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="folders that `fedtrip run`, `compare` or `tune` wrote")
    ],
    what: Annotated[
        Literal["table", "curves", "boxes"],
        typer.Option(help="the table, the convergence curves, or the trials as box plots (default: table)",
                     show_default=False),
    ] = "table",
    form: Annotated[
        Literal["tex", "csv", "md", "json", "pdf", "svg", "png"] | None,
        typer.Option("--format", help="table: tex, csv, md, json; figures: pdf, svg, png, or csv for their numbers "
                     "(default: by the ending of --out, else tex or pdf)", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", help="the file to write (default: stdout; a figure needs it)", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="method or variant that speed-ups are over (default: as in the comparison, "
                     "else fedavg)", show_default=False),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="VARIANT=TEXT", help="what a variant is called, e.g. fedtrip=Ours; repeatable"),
    ] = None,
) -> None:  # fmt: skip
    """Write the table or a figure of stored runs and comparisons, for a paper or another program.

    The LaTeX table needs the package booktabs; its caption says how it is to be read. Runs of the same experiment under
    other seeds are trials of one variant, whichever folder they come from. No code that a run names is run.

    Examples:

      fedtrip export runs/mine --out table.tex

      fedtrip export runs/mine --what curves --out curves.pdf

      fedtrip export runs/one runs/other --what boxes --format csv
    """
    from fedtrip.comparison.baseline import check_baseline
    from fedtrip.comparison.labels import read_labels, with_labels
    from fedtrip.figures.drawing import save_figure
    from fedtrip.files.atomic import check_writable, write_text
    from fedtrip.report.export import DRAWN, FORMATS, check_format, exported
    from fedtrip.report.folders import read_folders

    where = absolute(file)
    ending = None if where is None else where.suffix.lower().removeprefix(".")
    chosen = form or next((one for one in FORMATS[what] if one == ending), None)
    if chosen is None:
        if where is not None:
            raise UserError(f"--out '{file}' is no file for --what {what}; accepted: {', '.join(FORMATS[what])}")
        chosen = FORMATS[what][0]
    check_format(what, chosen)
    if where is None and chosen in DRAWN:
        raise UserError(f"--what {what} as {chosen} is a figure; accepted: --out FILE.{chosen}")
    if where is not None:
        check_writable(where, (f".{chosen}",))
    collected = read_folders(folders)
    variants = with_labels(collected.variants, read_labels(labels or [], collected.variants))
    based = collected.baseline(None) if baseline is None else check_baseline(variants, baseline)
    histories = dict(zip((variant.label for variant in variants), collected.histories.values(), strict=True))
    made = exported(variants, histories, what, chosen, based)
    for remark in collected.remarks:
        err.print(remark, markup=False, soft_wrap=True)
    if isinstance(made, str) and where is None:
        print(printable(made), end="")
        return
    assert where is not None
    try:
        write_text(where, made) if isinstance(made, str) else save_figure(made, where)
    except OSError as problem:
        raise UserError(f"--out '{file}' cannot be written: {problem.strerror or problem}") from None
    err.print(f"{what:<8}{where}", markup=False, soft_wrap=True)
