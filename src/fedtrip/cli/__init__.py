"""The command line: `fedtrip COMMAND`. Nothing here imports PyTorch until a command needs it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import typer

from fedtrip._version import __version__
from fedtrip.cli import catalogue, data, new
from fedtrip.cli.argument_help import keep_help_of_arguments
from fedtrip.cli.compare import compare
from fedtrip.cli.console import err
from fedtrip.cli.costs import costs
from fedtrip.cli.doctor import doctor
from fedtrip.cli.export import export
from fedtrip.cli.near import meant_instead
from fedtrip.cli.new_app import new_app
from fedtrip.cli.partition import partition
from fedtrip.cli.report import report
from fedtrip.cli.reproduce import reproduce
from fedtrip.cli.run import evaluate, run
from fedtrip.cli.tune import tune
from fedtrip.cli.watch import watch
from fedtrip.errors import UserError, is_out_of_memory
from fedtrip.printable import one_line

keep_help_of_arguments()


def _help(command: Callable[..., None]) -> str:
    """A command's docstring with each paragraph on one line, so that it is wrapped at the terminal's width only."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(text if text.startswith(" ") else " ".join(text.split()) for text in paragraphs)


app = typer.Typer(
    name="fedtrip",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning on non-IID data: which method needs the fewest rounds, bytes and FLOPs on yours.\n\n"
    "Start with [bold]fedtrip compare[/]: it needs no data and no options.",
)
for _command in (
    run,
    compare,
    tune,
    report,
    export,
    watch,
    evaluate,
    partition,
    costs,
    reproduce,
    new_app,
    catalogue.methods,
    catalogue.datasets,
    catalogue.models,
    doctor,
):
    app.command(help=_help(_command))(_command)
app.command("list", help=_help(catalogue.list_rules))(catalogue.list_rules)
app.add_typer(data.app, name="data")
app.add_typer(new.app, name="new")


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
        code = app(prog_name="fedtrip", standalone_mode=False)
    except UserError as problem:
        _fail(str(problem))
    except typer.Abort:
        _fail("interrupted", 130)
    except Exception as problem:
        if is_out_of_memory(problem):
            _fail("memory ran out; accepted: fewer --workers, or a smaller model, batch_size or data set")
        if not hasattr(problem, "format_message"):  # not one of the command line parser's: a bug, shown as one
            raise
        _fail(_of_the_parser(problem))
    if code == 130:
        _fail("interrupted", code)
    sys.exit(code)


def _of_the_parser(problem: Any) -> str:
    """What is wrong with the command line, and where its help is."""
    message = problem.format_message().replace("Input should be ", "accepted: ").rstrip(".")
    message = meant_instead(problem, sys.argv[1:]) or message
    context = getattr(problem, "ctx", None)
    if type(problem).__name__ == "NoArgsIsHelpError":
        print(message)
        sys.exit(0)
    end = "" if message.endswith("?") else ";"
    return f"{message}{end} see {context.command_path if context is not None else 'fedtrip'} --help"


def _fail(message: str, code: int = 2) -> None:
    """One line on stderr, whatever the message holds."""
    from rich.markup import escape

    err.print(f"[red]error:[/] {escape(one_line(message))}", soft_wrap=True)
    sys.exit(code)
