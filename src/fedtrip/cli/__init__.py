"""The command line: `fedtrip COMMAND`. Nothing here imports PyTorch until a command needs it."""

from __future__ import annotations

import sys

import typer

from fedtrip._version import __version__
from fedtrip.cli import catalogue, data
from fedtrip.cli.compare import compare
from fedtrip.cli.console import err
from fedtrip.cli.partition import partition
from fedtrip.cli.run import evaluate, run
from fedtrip.errors import UserError

app = typer.Typer(
    name="fedtrip",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning on non-IID data: which method needs the fewest rounds, bytes and FLOPs on yours.\n\n"
    "Start with [bold]fedtrip compare[/]: it needs no data and no options.",
)
app.command()(run)
app.command()(compare)
app.command()(evaluate)
app.command()(partition)
app.command()(catalogue.methods)
app.command()(catalogue.datasets)
app.command()(catalogue.models)
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"fedtrip {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    del version


def main() -> None:
    """Run the command line: bad input ends with one clear line and exit code 2."""
    try:
        app()
    except UserError as problem:
        err.print(f"[red]error:[/] {_escaped(str(problem))}", soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(130)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
