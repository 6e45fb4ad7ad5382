"""The help of a command's arguments, which some pairs of versions of typer and click lose.

typer (0.20) sets an argument's help and then calls click, which from 8.5 on has a help of its own there and sets it to
nothing.
"""

from __future__ import annotations

import functools
from typing import Any

from typer.core import TyperArgument


def keep_help_of_arguments() -> None:
    """Let an argument have the help that it was given, whatever the versions."""
    honest = TyperArgument.__init__

    @functools.wraps(honest)
    def with_help(self: TyperArgument, *given: Any, help: str | None = None, **options: Any) -> None:
        honest(self, *given, help=help, **options)
        self.help = help

    if not hasattr(honest, "__wrapped__"):
        TyperArgument.__init__ = with_help  # type: ignore[method-assign]
