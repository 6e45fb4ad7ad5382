"""The same rate in every round."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.schedules.interface import Schedule


@dataclass(frozen=True)
class Constant(Schedule):
    """η_t = η"""

    title = "the same rate in every round"

    def __call__(self, t: int, rounds: int) -> float:
        return 1.0
