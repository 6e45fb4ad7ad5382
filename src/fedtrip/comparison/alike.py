"""Variants that came out alike: in a figure one line hides the other, and a speed-up of 1 needs no interval."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from fedtrip.runs.history import History

if TYPE_CHECKING:
    from fedtrip.comparison.variants import Row

Alike = Literal["", "rounds", "curves"]
"""`rounds`: the same rounds to target in every trial, and several trials; `curves`: every score of every round."""
SENTENCES: dict[Alike, str] = {
    "rounds": "took the same rounds as {} in every trial",
    "curves": "had the same scores as {} in every round of every trial, so that one line hides the other",
}


def with_alike(
    rows: Sequence[Row], results: Mapping[str, Sequence[History]], group_of: Mapping[str, Hashable]
) -> list[Row]:
    """The rows with whom they came out like: the baseline or else the first; those of a group may be compared."""
    first = sorted(rows, key=lambda row: row.variant != row.baseline)
    made = []
    for row in rows:
        before = [other for other in first[: first.index(row)] if group_of[other.variant] == group_of[row.variant]]
        found: dict[str, Alike] = {other.variant: _alike(row, other, results) for other in before}
        like = {how: other for other, how in reversed(found.items())}
        how: Alike = "curves" if "curves" in like else "rounds" if "rounds" in like else ""
        made.append(replace(row, alike=how, like=like[how] if how else None))
    return made


def _alike(row: Row, other: Row, results: Mapping[str, Sequence[History]]) -> Alike:
    curves, others = ([run.curve for run in results[one.variant]] for one in (row, other))
    if curves == others and all(curves):
        return "curves"
    reached = row.target is not None and not row.censored and not other.censored
    return "rounds" if reached and row.trials > 1 and row.rounds.values == other.rounds.values else ""


def alike_in_words(rows: Sequence[Row]) -> str:
    """Who came out like whom."""
    told: dict[tuple[Alike, str], list[str]] = {}
    for row in rows:
        if row.like is not None:
            told.setdefault((row.alike, row.like), []).append(row.variant)
    return " ".join(
        f"{', '.join([*names[:-2], ' and '.join(names[-2:])])} {SENTENCES[how].format(other)}."
        for (how, other), names in told.items()
    )
