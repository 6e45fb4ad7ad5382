"""What a rule of selection is: a pure function of a round's own random generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedtrip.registry import Rule

SamplesOf = Callable[[int], int]
"""n_k, the number of samples of a client."""


@dataclass(frozen=True)
class Select(Rule):
    """Base of the rules that choose the clients of a round."""

    is_poisson: ClassVar[bool] = False
    """Whether every client takes part with the same probability, independently of the others."""

    def __call__(
        self, rng: np.random.Generator, t: int, clients: int, per_round: int, samples_of: SamplesOf
    ) -> tuple[int, ...]:
        """Some of the clients 0 to `clients` − 1, in ascending order: `per_round` of them, or as many on average.

        `rng` is the round's own: the choice is a function of the seed and the round t alone.
        """
        raise NotImplementedError
