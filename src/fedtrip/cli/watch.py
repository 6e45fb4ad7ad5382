"""`fedtrip watch`: a local page with the curves of runs, while they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtrip.cli.console import err, out


def watch(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR...",
            help="folders with runs and comparisons somewhere below them (default: runs)",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="port on this machine (default: any that is free)", show_default=False)] = 0,
    show: Annotated[bool, typer.Option("--open", help="open the page in the browser")] = False,
) -> None:
    """Show the curves of running and finished runs in the browser, and add points as they come.

    Prints the address of a page that this machine alone can reach and that holds a random token: whoever lacks it is
    refused. The page has the report's curves, a table with round, score, state and time left of every run, and finds
    runs that begin later. It only reads, and no code that a run names. Ctrl-C ends it; the runs do not notice.

    On another machine: ssh -L 8080:127.0.0.1:8080 HOST, and there `fedtrip watch --port 8080`.

    Examples:

      fedtrip watch

      fedtrip watch runs/mine runs/other --open
    """
    from fedtrip.watch.server import WatchServer
    from fedtrip.watch.watched import Watched

    with WatchServer(Watched(folders or [Path("runs")]), port) as server:
        out.print(f"watching at {server.address}  (Ctrl-C ends it)", markup=False, soft_wrap=True)
        if show:
            import webbrowser

            webbrowser.open(server.address_once)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            if err.is_terminal:
                err.print()  # after ^C
            err.print("no longer watching", markup=False)
