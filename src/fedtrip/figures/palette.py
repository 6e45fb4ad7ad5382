"""The colours and line styles of every figure: a variant looks the same in the plot and in the report."""

from __future__ import annotations

# Okabe and Ito's colours, told apart with any kind of colour vision; line styles tell them apart without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
ON_DARK = {"#0072B2": "#3A9BDC", "#000000": "#F2F2F2", "#8C6D31": "#BFA05A"}
"""The same hue, lighter, where a colour is too dark for a dark page."""
STYLES = ("-", "--", "-.", ":")
"""As matplotlib writes them."""


def look(number: int) -> tuple[str, str]:
    """Colour and line style of the variant with this number; one line shows through another."""
    return COLOURS[number % len(COLOURS)], STYLES[(number + number // len(COLOURS)) % len(STYLES)]
