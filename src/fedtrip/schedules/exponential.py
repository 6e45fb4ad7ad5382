"""A rate that falls by the same factor in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedtrip.fixed_math import power
from fedtrip.schedules.interface import Schedule


@dataclass(frozen=True)
class Exponential(Schedule):
    """η_t = η·γ^(t−1)"""

    title = "falls by the same factor in every round"
    parameter = "gamma"

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.998
    """γ, the factor from one round to the next"""

    def __call__(self, t: int, rounds: int) -> float:
        return power(self.gamma, t - 1)
