"""Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fedtrip.printable import printable


class _SafeConsole(Console):
    """A console on which no text can move the cursor or change the terminal; only rich's own controls can."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


out = _SafeConsole(highlight=False)
err = _SafeConsole(stderr=True, highlight=False)


def print_json(content: Any) -> None:
    """Plain JSON on stdout, whatever the terminal; what it would obey is written as JSON's own escapes."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    print("".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text))


def typed_command() -> str:
    """The command line as it was typed, quoted for a shell."""
    return shlex.join(["fedtrip", *sys.argv[1:]])
