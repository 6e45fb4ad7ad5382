"""Consoles on which no text can move the cursor or change the terminal; results go to stdout, all else to stderr."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fedtrip.printable import printable


class _SafeConsole(Console):
    """A console that obeys rich's own controls, and nothing within a text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


out = _SafeConsole(highlight=False)
err = _SafeConsole(stderr=True, highlight=False)
