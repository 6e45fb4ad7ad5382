"""Multi-Krum (Blanchard et al., 2017): the mean of the clients whose neighbours are nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.combining._krum import fewest_for, ranked
from fedtrip.combining._rows import judged, weighted_sum
from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class MultiKrum(Combine):
    """the uniform mean of the m Δ_k of least score, as of the rule krum; m = |S| − f; ignores n_k

    The clients are picked once, by `w` (in an exchange without `w`, by all that is sent in it), for all vectors.

    Departs from EPFL's code: it squares the distances twice and returns the sum of the m. Departs from Flower's: it
    weighs the m by n_k, of which nobody knows whether it is true.
    """

    title = "the mean of the uploads nearest to their neighbours' (Blanchard et al., 2017); sample counts are ignored"
    parameter = "f"
    second_parameter = "m"

    f: Annotated[int, Field(ge=0)] = 1
    """f, how many of a round's clients may lie; |S| must be at least 2f + 3"""
    m: Annotated[int, Field(ge=1)] | None = None
    """m, how many are averaged, at most |S| − f; default: |S| − f of each round"""

    @property
    def fewest(self) -> int:
        return max(fewest_for(self.f), (self.m or 0) + self.f)

    def further_operations(self, clients: int) -> int:
        return clients * (clients - 1) // 2

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        order = ranked(judged(differences), self.f)
        count = self.m or len(order) - self.f
        picked = sorted(order[:count])  # client order decides the sums' bits
        return {
            name: weighted_sum(matrix[picked], [1.0] * count) / count for name, matrix in differences.items()
        }, state
