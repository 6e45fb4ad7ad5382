"""Clients that come and go: phones on a charger, hospitals in working hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedtrip.randomness import choice, uniforms
from fedtrip.selection.interface import SamplesOf, Select


@dataclass(frozen=True)
class Available(Select):
    """each client is there with probability p in a round; K of those that are, or all if there are fewer"""

    title = "only some clients can be reached in a round; fewer take part where fewer are there"
    parameter = "p"

    p: Annotated[float, Field(gt=0, le=1)]
    """p, the probability that a client can be reached in a round"""

    def __call__(
        self,
        rng: np.random.Generator,
        t: int,
        clients: int,
        per_round: int,
        samples_of: SamplesOf,
    ) -> tuple[int, ...]:
        draws = uniforms(rng, clients)
        there = np.flatnonzero(draws < self.p)
        if not len(there):  # a round waits for the first one to come
            there = np.array([int(draws.argmin())])
        return tuple(there[choice(rng, len(there), min(per_round, len(there)))].tolist())
