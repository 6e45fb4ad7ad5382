"""The weighted mean: FedAvg's rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

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
        combined: Vectors = {}
        for name, matrix in differences.items():
            combined[name] = matrix[0] * float(weights[0])
            for weight, row in zip(weights[1:].tolist(), matrix[1:], strict=True):
                combined[name].add_(row, alpha=weight)
        return combined, state
