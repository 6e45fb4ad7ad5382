"""A rate that falls along half a cosine (Loshchilov and Hutter, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedtrip.fixed_math import cos_pi
from fedtrip.schedules.interface import Schedule


@dataclass(frozen=True)
class Cosine(Schedule):
    """η_t = η·[e + (1 − e)(1 + cos(π(t−1)/T))/2], T all rounds"""

    title = "falls along half a cosine to its end"
    parameter = "end"

    end: Annotated[float, Field(ge=0, le=1)] = 0.0
    """e, what would be left of the rate in round T + 1"""

    def __call__(self, t: int, rounds: int) -> float:
        return self.end + (1 - self.end) * (1 + cos_pi((t - 1) / rounds)) / 2
