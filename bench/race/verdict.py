"""Whether two simulators train to the same accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedtrip.statistics import CONFIDENCE, estimate

SMALL = 0.005
"""A difference of accuracies that does not matter."""


def agree(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether Welch's 95 % interval of the difference of the means holds 0, or the difference is at most 0.5 points."""
    from scipy import stats

    one, other = estimate(ours), estimate(theirs)
    difference = abs(one.mean - other.mean)
    if difference <= SMALL:
        return True
    assert one.std is not None
    assert other.std is not None
    variances = [one.std**2 / len(ours), other.std**2 / len(theirs)]
    if not sum(variances):
        return False
    spread = sum(v**2 / (len(each) - 1) for v, each in zip(variances, (ours, theirs), strict=True))
    freedom = sum(variances) ** 2 / spread
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(sum(variances))
    return difference <= half
