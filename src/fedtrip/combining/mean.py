"""The weighted mean: FedAvg's rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors, axpy


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
            combined[name] = torch.zeros_like(matrix[0])
            for weight, row in zip(weights.tolist(), matrix, strict=True):
                axpy(combined[name], weight, row)
        return combined, state
