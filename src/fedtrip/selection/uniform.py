"""Every client equally likely: the rule of the paper, and of nearly all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedtrip.randomness import choice
from fedtrip.selection.interface import SamplesOf, Select


@dataclass(frozen=True)
class Uniform(Select):
    """K of N clients, uniformly without replacement"""

    title = "every client equally likely"

    def __call__(
        self,
        rng: np.random.Generator,
        t: int,
        clients: int,
        per_round: int,
        samples_of: SamplesOf,
    ) -> tuple[int, ...]:
        return tuple(choice(rng, clients, per_round))
