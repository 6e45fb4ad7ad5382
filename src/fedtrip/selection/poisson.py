"""Every client decides for itself: the sampling that the usual accounts of differential privacy are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedtrip.randomness import uniforms
from fedtrip.selection.interface import SamplesOf, Select


@dataclass(frozen=True)
class Poisson(Select):
    """each client takes part with probability q = K/N, independently: K on average, sometimes nobody"""

    title = "each client by itself, K of them on average: what differential privacy counts with"
    is_poisson: ClassVar[bool] = True

    def __call__(
        self,
        rng: np.random.Generator,
        t: int,
        clients: int,
        per_round: int,
        samples_of: SamplesOf,
    ) -> tuple[int, ...]:
        return tuple(np.flatnonzero(uniforms(rng, clients) < per_round / clients).tolist())
