"""The median of some measurements with its interval, and what it says about a bar."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from fedtrip.statistics import CONFIDENCE


@dataclass(frozen=True)
class Interval:
    """A median between two order statistics: 95 % of such intervals hold the true median, whatever the noise's law."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The interval from the k-th smallest to the k-th largest of n values, with the largest k that is enough.

        Each value is below the true median with probability ½, so that the interval misses it with probability
        2·P(Bin(n, ½) < k). With fewer than six values no k is enough, and it is all of them.
        """
        ordered = sorted(values)
        k = _rank(len(ordered))
        return cls(statistics.median(ordered), ordered[k - 1], ordered[-k])


def _rank(n: int) -> int:
    """The largest k with 2·P(Bin(n, ½) < k) at most 5 %; 1 if there is none."""
    below, k = 0, 0
    while 2 * (below + math.comb(n, k)) <= (1 - CONFIDENCE) * 2**n:
        below += math.comb(n, k)
        k += 1
    return max(1, k)


@dataclass(frozen=True)
class Bar:
    """What a figure must reach."""

    value: float
    is_most: bool = False
    """whether it must not be above the bar; otherwise it must not be below"""

    def verdict(self, found: Interval) -> str:
        """`met`; `missed` if the whole interval lies beyond the bar; between the two it cannot be told."""
        reached, best = (found.median <= self.value, found.low <= self.value) if self.is_most else (
            found.median >= self.value, found.high >= self.value
        )  # fmt: skip
        return "met" if reached else "within the interval" if best else "missed"


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """What one took over what the other took, turn by turn."""
    return [one / other for one, other in zip(above, below, strict=True)]
