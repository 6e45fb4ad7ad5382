"""The median of each number: half of the clients may lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Median(Combine):
    """the median of each coordinate, of an even number the mean of the two in the middle; ignores n_k"""

    title = "the median of each coordinate (Yin et al., 2018); sample counts are ignored"

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        return {name: middle(matrix) for name, matrix in differences.items()}, state


def middle(matrix: Tensor) -> Tensor:
    """The median of each column; `torch.median` would take the lower of the two in the middle."""
    ordered, count = matrix.sort(dim=0, stable=True).values, len(matrix)  # stable: also in which zero comes first
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
