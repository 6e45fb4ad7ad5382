"""Norm clipping (Sun et al., 2019): no upload is longer than c."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.combining._rows import clipped_mean
from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class NormClip(Combine):
    """Σ_k p_k·Δ_k·min(1, c/‖Δ_k‖), ‖·‖ over all of a vector; p_k as the method says

    Each vector is clipped by its own norm with the same c: `w`, the buffers, a method's others. So client k moves none
    of them by more than p_k·c. Clipped by the norm of `w` alone, a client with an honest `w` could send any buffers.
    """

    title = "the mean of uploads clipped to a norm (Sun et al., 2019), weighted as the method says"
    parameter = "c"

    c: Annotated[float, Field(gt=0)] = 1.0
    """c, the largest norm of a client's difference in each vector; inf clips nothing"""

    def further_operations(self, clients: int) -> int:
        return clients

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        shares = weights.tolist()
        return {name: clipped_mean(matrix, shares, self.c) for name, matrix in differences.items()}, state
