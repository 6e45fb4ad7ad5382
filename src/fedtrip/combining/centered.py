"""Centered clipping (Karimireddy et al., 2021): clipped about what was combined in the last round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.combining._rows import clipped_mean
from fedtrip.combining.interface import Combine
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Centered(Combine):
    """v ← v + Σ_k p_k·(Δ_k − v)·min(1, c/‖Δ_k − v‖), a few times; v is kept from round to round, 0 at first

    Each vector has a centre v of its own and is clipped by its own norm with the same c, as of the rule clip. A round
    that changes nothing leaves the centres as they were.
    """

    title = "the mean clipped about the last round's (Karimireddy et al., 2021), weighted as the method says"
    parameter = "c"
    second_parameter = "iterations"

    c: Annotated[float, Field(gt=0)] = 1.0
    """c, the largest norm of a client's distance to the centre; inf clips nothing"""
    iterations: Annotated[int, Field(ge=1, le=5)] = 1
    """how often the centre is moved in a round"""

    def further_operations(self, clients: int) -> int:
        return (2 * self.iterations - 1) * clients

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        shares = weights.tolist()
        centres: Vectors = {}
        for name, rows in differences.items():
            v = state[name] if name in state else torch.zeros_like(rows[0])
            for _ in range(self.iterations):
                v = v + clipped_mean(rows - v, shares, self.c)
            centres[name] = v
        return centres, {**state, **centres}
