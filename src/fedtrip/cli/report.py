"""`fedtrip report`: one page about runs and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtrip.cli.console import out
from fedtrip.cli.options import absolute


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="folders that `fedtrip run`, `compare` or `tune` wrote")
    ],
    file: Annotated[
        Path | None,
        typer.Option("--out", help="the page to write (default: report.html in the first DIR)", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="method or variant that speed-ups are over (default: as in the comparison, else fedavg)",
            show_default=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="folder with the data sets, for what the clients hold (default: as in `fedtrip run`; nothing is "
            "downloaded)",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML page about runs and comparisons.

    It has the result in words, a sortable table, convergence curves, box plots over the trials, what the clients hold
    and how the final model serves each of them, the settings and the command that repeats it. The page needs no
    network. Runs of the same experiment under other seeds become trials of one method. `fedtrip compare` writes the
    page by itself.

    Examples:

      fedtrip report runs/mine --open

      fedtrip report runs/one runs/other --out both.html
    """
    from fedtrip.experiment.preparer import Preparer
    from fedtrip.files.atomic import check_writable
    from fedtrip.report import read_folders, write_report

    collected = read_folders(folders)
    page = absolute(file) or folders[0].absolute() / "report.html"
    check_writable(page, (".html", ".htm"))
    write_report(
        collected.histories,
        page,
        commands=collected.commands,
        versions=collected.versions,
        remarks=collected.remarks,
        baseline=collected.baseline(baseline),
        tuned=collected.tuned,
        prepare=Preparer(data_dir=absolute(data_dir), download=False, own_code=False),
    )
    out.print(f"report  {page}", markup=False, soft_wrap=True)
    if show:
        import webbrowser

        webbrowser.open(page.as_uri())
