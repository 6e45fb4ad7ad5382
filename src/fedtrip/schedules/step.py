"""A rate that falls in steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedtrip.fixed_math import power
from fedtrip.schedules.interface import Schedule


@dataclass(frozen=True)
class Step(Schedule):
    """η_t = η·γ^⌊(t−1)/n⌋"""

    title = "falls by a factor every so many rounds"
    parameter = "every"

    every: Annotated[int, Field(ge=1)]
    """n, the rounds of one step"""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.1
    """γ, the factor from one step to the next"""

    def __call__(self, t: int, rounds: int) -> float:
        return power(self.gamma, (t - 1) // self.every)
