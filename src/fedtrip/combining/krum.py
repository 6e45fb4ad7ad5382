"""Krum (Blanchard et al., 2017): one client's upload, that of the client whose neighbours are nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.combining._krum import fewest_for, ranked
from fedtrip.combining._rows import judged
from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Krum(Combine):
    """the Δ_k of least score, the sum of its |S|−f−2 smallest ‖Δ_k − Δ_j‖², j ≠ k, ties to the first; ignores n_k

    The client is picked once, by `w` (in an exchange without `w`, by all that is sent in it): its buffers and its other
    vectors are taken with it.
    """

    title = "the one upload that is nearest to its neighbours' (Blanchard et al., 2017); sample counts are ignored"
    parameter = "f"

    f: Annotated[int, Field(ge=0)] = 1
    """f, how many of a round's clients may lie; |S| must be at least 2f + 3"""

    @property
    def fewest(self) -> int:
        return fewest_for(self.f)

    def further_operations(self, clients: int) -> int:
        return clients * (clients - 1) // 2

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        best = ranked(judged(differences), self.f)[0]
        return {name: matrix[best].clone() for name, matrix in differences.items()}, state
