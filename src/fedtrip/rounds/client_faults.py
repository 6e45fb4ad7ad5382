"""Clients that fail on purpose, so that methods can be compared under faults: some never answer, some send nonsense.

Who fails, and how, is a function of seed, round and client alone: the same on every engine, and the same for every
method of a comparison. A larger probability only adds faults to those of a smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from fedtrip.methods.interface import Vectors
from fedtrip.randomness import stream
from fedtrip.training.client import Outcome

Kind = Literal["nan", "inf", "shape"]
KINDS: tuple[Kind, ...] = ("nan", "inf", "shape")


@dataclass(frozen=True)
class Corruption:
    """How a client spoils what it sends; the fractions say which vector and which element."""

    kind: Kind
    vector: float
    element: float

    def of(self, outcome: Outcome) -> Outcome:
        """The outcome with one vector of its upload spoilt."""
        names = sorted(name for name, vector in outcome.upload.items() if vector.is_floating_point() and vector.numel())
        name = names[int(self.vector * len(names))]
        spoilt: Vectors = {**outcome.upload, name: self._spoilt(outcome.upload[name])}
        return replace(outcome, upload=spoilt)

    def _spoilt(self, vector: Tensor) -> Tensor:
        if self.kind == "shape":
            return vector[:-1].clone()
        spoilt = vector.clone()
        spoilt[int(self.element * vector.numel())] = math.nan if self.kind == "nan" else math.inf
        return spoilt


@dataclass(frozen=True)
class RoundFaults:
    """What goes wrong with the chosen clients of one round."""

    dropped: tuple[int, ...]
    corrupted: dict[int, Corruption]


def round_faults(seed: int, round_number: int, chosen: Sequence[int], dropout: float, corrupt: float) -> RoundFaults:
    """Each chosen client is dropped with probability `dropout`; of the others each is corrupted with `corrupt`."""
    dropped: list[int] = []
    corrupted: dict[int, Corruption] = {}
    for client in chosen if dropout or corrupt else ():
        drawn = stream(seed, "client faults", round_number, client)
        drops, corrupts, kind, vector, element = drawn.random(5).tolist()
        if drops < dropout:
            dropped.append(client)
        elif corrupts < corrupt:
            corrupted[client] = Corruption(KINDS[int(kind * len(KINDS))], vector, element)
    return RoundFaults(tuple(dropped), corrupted)
