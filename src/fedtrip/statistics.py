"""The few statistics that a comparison needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation (n − 1) over trials."""

    mean: float
    std: float | None
    """None for a single trial"""
    values: tuple[float, ...]


@dataclass(frozen=True)
class Ratio:
    """A speed-up paired by seed: the geometric mean of the trials' ratios, with its 95 % interval."""

    mean: float
    low: float | None
    high: float | None
    bound: str
    """'' if exact; '>' or '<' if censored runs make it a lower or an upper bound; '?' if on both sides"""
    left_out: int = 0
    """pairs in which both runs are censored: they say nothing, and are not counted"""
    pairs: int = 0
    """those that count"""


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and standard deviation."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Estimate(mean, None, tuple(values))
    return Estimate(mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)), tuple(values))


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's t interval of the mean, 95 %; needs two values at least."""
    from scipy import stats

    known = estimate(values)
    assert known.std is not None
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * known.std / math.sqrt(len(values))
    return known.mean - half, known.mean + half


def paired_ratio(
    baseline: Sequence[float], other: Sequence[float], baseline_censored: Sequence[bool], censored: Sequence[bool]
) -> Ratio | None:
    """exp of the mean of log(baseline_s / other_s) over the seeds s, with Student's t interval on the logarithms.

    A seed on which neither run got there says nothing about which is faster, and is left out: counted as a ratio of 1
    it would pull the mean towards 1 and narrow the interval. None if no seed is left.
    """
    pairs = list(zip(baseline, other, baseline_censored, censored, strict=True))
    known = [pair for pair in pairs if not (pair[2] and pair[3])]
    if not known:
        return None
    logs = estimate([math.log(b / o) for b, o, _, _ in known])
    bound = {(False, False): "", (True, False): ">", (False, True): "<", (True, True): "?"}[
        any(pair[2] for pair in known), any(pair[3] for pair in known)
    ]
    low, high = (None, None) if logs.std is None else map(math.exp, student_interval(logs.values))
    return Ratio(math.exp(logs.mean), low, high, bound, len(pairs) - len(known), len(known))
