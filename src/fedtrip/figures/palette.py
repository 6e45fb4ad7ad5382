"""The colours and line styles of every figure: a method looks the same in every plot and in the report.

A look is a place in one fixed list of pairs of colour and style. A built-in method has the place of its name in
`ORDER`, whatever else is in the figure, and a class of the user's own one that follows from its name. A second variant
of a method takes a free one, with a colour of its own if there is one left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedtrip.runs.history import History

# Okabe and Ito's colours, told apart with any kind of colour vision, and four more; styles tell them apart without.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31", "#882255", "#5E3C99",
    "#7F7F7F", "#9ACD32",
)  # fmt: skip
ON_DARK = {
    "#0072B2": "#3A9BDC", "#000000": "#F2F2F2", "#8C6D31": "#BFA05A", "#882255": "#D9699F", "#5E3C99": "#A78BE8",
    "#7F7F7F": "#A6A6A6",
}  # fmt: skip
"""The same hue, lighter, where a colour is too dark for a dark page."""
OWN_COLOURS = (8, 9, 11)
"""Places of the colours that a class of the user's own has first: the usual methods have others, and grey is dull."""
Style = str | tuple[float, tuple[float, ...]]
STYLES: tuple[Style, ...] = ("-", "--", "-.", ":")
FURTHER_STYLES: tuple[Style, ...] = ((0, (9, 3)), (0, (9, 2.5, 2, 2.5)))
"""As matplotlib writes them; the further ones when all colours have had the others."""
PLACES = len(COLOURS) * (len(STYLES) + len(FURTHER_STYLES))
"""Pairs of colour and style."""
ORDER = (
    "fedtrip", "fedtrip-auto", "fedavg", "fedprox", "slowmo", "moon", "feddyn", "scaffold", "mimelite", "feddane",
    "fedgkd", "fednova",
    "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedexp", "feddisco", "fedcm", "fedacg", "feddc", "fedinit",
    "fedntd", "fedlc",
    "feddecorr", "fedalign", "fedsam", "mofedsam", "fedspeed", "fedsmoo", "fedlesam", "fedlesam-s", "fedlesam-d",
    "local", "fedbn", "fedper",
    "lg-fedavg", "fedrep", "fedbabu", "ditto", "pfedme", "apfl",
)  # fmt: skip
"""The methods by their places. A new one may be added at the end, and looks like one's own class until then; to move
one changes how it looks."""


class Look(NamedTuple):
    """How a line is drawn."""

    colour: str
    style: Style

    @property
    def on_dark(self) -> str:
        """The colour for a dark page."""
        return ON_DARK.get(self.colour, self.colour)


def look(number: int) -> Look:
    """Colour and line style of a place; one line shows through another."""
    turn, colour = divmod(number % PLACES, len(COLOURS))
    style = STYLES[(colour + turn) % len(STYLES)] if turn < len(STYLES) else FURTHER_STYLES[turn - len(STYLES)]
    return Look(COLOURS[colour], style)


def looks_of(results: Mapping[str, Sequence[History]]) -> dict[str, Look]:
    """The looks of some variants' runs."""
    return looks({label: runs[0].experiment.method.name for label, runs in results.items() if runs})


def looks(methods: Mapping[str, str]) -> dict[str, Look]:
    """A look for each label, by the method that it names; no two are the same as long as there are enough."""
    places: dict[str, int] = {}
    for label, method in methods.items():
        if method in ORDER and ORDER.index(method) not in places.values():
            places[label] = ORDER.index(method)
    own = {method: label for label, method in reversed(list(methods.items())) if method not in ORDER}
    for method, label in sorted(own.items()):  # by name: only who wants the same place can change it
        places[label] = _first_free(places, _places_of(method))
    for label in methods:
        if label not in places:
            colours = {place % len(COLOURS) for place in places.values()}
            fresh = [place for place in range(PLACES) if place % len(COLOURS) not in colours]
            places[label] = _first_free(places, [*fresh, *range(PLACES)])
    return {label: look(places[label]) for label in methods}


def _places_of(method: str) -> list[int]:
    """The places of a class of the user's own: those with styles that no built-in method has, from its name on.

    First in the colours that the usual methods do not have.
    """
    further = range(len(COLOURS) * len(STYLES), PLACES)
    rare = [place for place in further if place % len(COLOURS) in OWN_COLOURS]
    first = int.from_bytes(hashlib.sha256(method.encode("utf-8", "replace")).digest()[:4], "big") % len(rare)
    return [*rare[first:], *rare[:first], *(place for place in further if place not in rare), *range(PLACES)]


def _first_free(taken: Mapping[str, int], places: Sequence[int]) -> int:
    return next((place for place in places if place not in taken.values()), places[0])
