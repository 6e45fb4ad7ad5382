"""Clients with more samples are asked more often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedtrip.randomness import exponentials
from fedtrip.selection.interface import SamplesOf, Select


@dataclass(frozen=True)
class Weighted(Select):
    """K of N clients without replacement, each draw with probability n_k / Σ n of those left"""

    title = "a client's chance follows its number of samples"

    def __call__(
        self,
        rng: np.random.Generator,
        t: int,
        clients: int,
        per_round: int,
        samples_of: SamplesOf,
    ) -> tuple[int, ...]:
        weights = np.array([samples_of(client) for client in range(clients)], dtype=np.float64)
        # the k smallest of E_i / w_i, E_i exponential, are such a draw (Efraimidis and Spirakis)
        with np.errstate(divide="ignore"):
            keys = exponentials(rng, clients) / weights
        return tuple(sorted(int(client) for client in np.argsort(keys, kind="stable")[:per_round]))
