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
) -> Ratio:
    """exp of the mean of log(baseline_s / other_s) over the seeds s, with Student's t interval on the logarithms."""
    logs = estimate([math.log(b / o) for b, o in zip(baseline, other, strict=True)])
    bound = {(False, False): "", (True, False): ">", (False, True): "<", (True, True): "?"}[
        any(baseline_censored), any(censored)
    ]
    if logs.std is None:
        return Ratio(math.exp(logs.mean), None, None, bound)
    low, high = student_interval(logs.values)
    return Ratio(math.exp(logs.mean), math.exp(low), math.exp(high), bound)
