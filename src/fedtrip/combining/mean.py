"""The weighted mean: FedAvg's rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedtrip.combining._rows import weighted_sum
from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Mean(Combine):
    """Σ_k p_k·Δ_k, weighted as the method says, summed in client order"""

    title = "the mean, weighted by samples or uniform as the method says"
    is_mean = True

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        shares = weights.tolist()
        return {name: weighted_sum(matrix, shares) for name, matrix in differences.items()}, state
