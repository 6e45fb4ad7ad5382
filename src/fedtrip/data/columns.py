"""Which columns of a table are inputs, targets and the client; and classes and clients by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtrip.data.sources import Source
from fedtrip.errors import UserError, shortened, unknown_name
from fedtrip.randomness import permutation, stream
from fedtrip.targets import TargetKind

USUAL_TARGETS = ("target", "label", "labels")
"""The column of the targets, unless another is named."""
HELD_OUT = 0.2
"""The share of the rows that are the test set, unless something else is said."""


@dataclass(frozen=True)
class Columns:
    """The columns that are read."""

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    client: str | None

    @property
    def all(self) -> tuple[str, ...]:
        """Every column that must be there, but for the client's."""
        return (*self.inputs, *self.targets)


def chosen(place: Path | str, names: Sequence[str], source: Source) -> Columns:
    """The columns that a source's options name: `target=`, `client=` and `inputs=`, by default all others."""
    targets = source.columns("target")
    if not targets:
        targets = [name for name in USUAL_TARGETS if name in names][:1]
        if not targets:
            raise UserError(
                f"{place}: has no column called {' or '.join(USUAL_TARGETS)}; accepted: {source.kind}:…?target=COLUMN, "
                f"one of {shortened(', '.join(names))}"
            )
    clients = source.columns("client")
    if len(clients) > 1:
        raise UserError(f"{place}: client names {len(clients)} columns; accepted: one")
    inputs = source.columns("inputs") or [name for name in names if name not in (*targets, *clients)]
    for name in (*targets, *clients, *inputs):
        if name not in names:
            raise unknown_name(f"{place}: column", name, names)
    twice = [name for name in inputs if name in (*targets, *clients) or inputs.count(name) > 1]
    if twice:
        raise UserError(f"{place}: column '{twice[0]}' is named twice; accepted: an input, a target or the client")
    if not inputs:
        raise UserError(
            f"{place}: has no column beside {', '.join((*targets, *clients))}; accepted: at least one input"
        )
    return Columns(tuple(inputs), tuple(targets), clients[0] if clients else None)


def numbered(values: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The distinct values, sorted, numbered from 0: the number of each entry, and what the numbers stand for."""
    plain = values if values.dtype.kind in "biuf" else values.astype(str)
    names, numbers = np.unique(plain, return_inverse=True)
    return numbers.reshape(len(values)).astype(np.int64), tuple(str(name) for name in names.tolist())


def target_values(called: str, values: NDArray[Any], kind: TargetKind) -> tuple[NDArray[Any], tuple[str, ...]]:
    """One target column as the task wants it, and the names of its classes, if it has such.

    Classes may be text or integers, and get numbers in their sorted order; integers as numbers become floating point.
    """
    is_number = values.dtype.kind in "biuf"
    if kind == "classes":
        if values.dtype.kind == "f":
            raise UserError(
                f"{called} holds floating-point numbers; accepted: classes as text or integers, or task regression"
            )
        return numbered(values)
    if not is_number:
        raise UserError(f"{called} holds text; accepted: numbers, or task classification")
    return (values.astype(np.float64) if kind == "numbers" else values), ()


def held_out(owners: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Which rows are the test set: of every client's the given share, always the same ones.

    ⌊share·n + ½⌋ of its n rows, but at least one of two and never all; drawn without regard to the experiment's seed.
    """
    chosen_rows = np.zeros(len(owners), dtype=np.bool_)
    order = np.argsort(owners, kind="stable")
    bounds = np.flatnonzero(np.diff(owners[order])) + 1
    for rows in np.split(order, bounds):
        count = min(max(int(share * len(rows) + 0.5), 1), len(rows) - 1)
        drawn = permutation(stream(0, "test rows", int(owners[rows[0]])), len(rows))
        chosen_rows[rows[drawn[:count]]] = True
    return chosen_rows


def told(what: str, names: Sequence[str]) -> str | None:
    """What the numbers of classes or clients stand for, in one line; None if they stand for themselves."""
    if list(names) == [str(number) for number in range(len(names))]:
        return None
    return shortened(f"{what}: " + ", ".join(f"{number} = {name}" for number, name in enumerate(names)), 500)
