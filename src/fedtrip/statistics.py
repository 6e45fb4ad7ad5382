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


def paired_ratio(
    baseline: Sequence[float], other: Sequence[float], baseline_censored: Sequence[bool], censored: Sequence[bool]
) -> Ratio:
    """exp of the mean of log(baseline_s / other_s) over the seeds s, with Student's t interval on the logarithms."""
    from scipy import stats

    logs = estimate([math.log(b / o) for b, o in zip(baseline, other, strict=True)])
    bound = {(False, False): "", (True, False): ">", (False, True): "<", (True, True): "?"}[
        any(baseline_censored), any(censored)
    ]
    if logs.std is None:
        return Ratio(math.exp(logs.mean), None, None, bound)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logs.values) - 1)) * logs.std / math.sqrt(len(logs.values))
    return Ratio(math.exp(logs.mean), math.exp(logs.mean - half), math.exp(logs.mean + half), bound)
