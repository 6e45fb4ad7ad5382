"""Clients that send nonsense: NaN, infinity, or a vector of another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from fedtrip.attacks._draws import Draw, draw
from fedtrip.attacks.interface import Attack, Faults
from fedtrip.vectors import Vectors

Probability = Annotated[float, Field(ge=0, le=1)]
KINDS: tuple[Literal["nan", "inf", "shape"], ...] = ("nan", "inf", "shape")


@dataclass(frozen=True)
class Corrupt(Attack):
    """each client that answers sends NaN, infinity or a wrong shape with probability p, and is left out"""

    title = "some clients send NaN, infinity or a wrong shape, and are left out of the round"
    parameter = "p"

    p: Probability
    """p, the probability that a client that answers sends nonsense"""
    dropout: Probability = 0.0
    """probability that a chosen client never answers, as of the rule dropout"""

    def faults(self, seed: int, t: int, chosen: Sequence[int]) -> Faults:
        drawn = {client: draw(seed, t, client) for client in chosen}
        dropped = tuple(client for client, numbers in drawn.items() if numbers.drops < self.dropout)
        return Faults(
            dropped,
            {
                client: Corruption(numbers)
                for client, numbers in drawn.items()
                if client not in dropped and numbers.corrupts < self.p
            },
        )


@dataclass(frozen=True)
class Corruption:
    """How a client spoils what it sends: the draw says how, which vector, and which element."""

    numbers: Draw

    def __call__(self, upload: Vectors) -> Vectors:
        """The upload with one of its vectors spoilt."""
        names = sorted(name for name, vector in upload.items() if vector.is_floating_point() and vector.numel())
        if not names:  # nothing travels
            return upload
        name = names[int(self.numbers.vector * len(names))]
        return {**upload, name: self._spoilt(upload[name])}

    def _spoilt(self, vector: Tensor) -> Tensor:
        kind = KINDS[int(self.numbers.kind * len(KINDS))]
        if kind == "shape":
            return vector[:-1].clone()
        spoilt = vector.clone()
        spoilt[int(self.numbers.element * vector.numel())] = math.nan if kind == "nan" else math.inf
        return spoilt
