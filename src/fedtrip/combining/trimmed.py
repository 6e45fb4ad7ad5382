"""The mean of each number without its extremes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Trimmed(Combine):
    """each coordinate's mean without the b = ⌊β|S|⌋ largest and the b smallest; ignores n_k"""

    title = "the trimmed mean of each coordinate (Yin et al., 2018); sample counts are ignored"
    parameter = "beta"

    beta: Annotated[float, Field(ge=0, lt=0.5)] = 0.1
    """β, the share of the clients that is left out at each end"""

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        return {name: self._trimmed(matrix) for name, matrix in differences.items()}, state

    def _trimmed(self, matrix: Tensor) -> Tensor:
        cut = int(self.beta * len(matrix))
        kept = matrix.sort(dim=0, stable=True).values[cut : len(matrix) - cut]
        total = kept[0].clone()
        for row in kept[1:]:
            total.add_(row)
        return total.div_(len(kept))
