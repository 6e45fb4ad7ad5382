"""The few statistics that a comparison needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
BOUNDS = {(False, False): "", (True, False): ">", (False, True): "<", (True, True): "?"}
"""What a ratio is whose numerator, whose denominator has censored runs, which count as too small."""


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
    p: float | None = None
    """two-sided p-value of Student's t test that it is 1; None where the values have no spread to judge by"""


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


def student_p(mean: float, error: float, freedom: float) -> float | None:
    """Two-sided p-value of Student's t test that a mean with this standard error is 0; None without an error."""
    from scipy import stats

    if error == 0:
        return None if mean else 1.0
    return float(2 * stats.t.sf(abs(mean) / error, freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for testing many hypotheses at once: the adjusted p-values, in the order given.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none is smaller than the one before it.
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def mean_of_groups(groups: Sequence[Mapping[int, float]]) -> Ratio:
    """The mean of the means of some groups of ratios, each over all its own seeds, with its 95 % interval.

    A group's seeds spread about its mean. A seed's deviations in all groups that have it are added before they are
    squared, because what a seed draws is the same in every group; so with the same seeds everywhere this is Student's
    interval of the seeds' means. Degrees of freedom: Welch and Satterthwaite's, but never more than seeds less one.
    """
    from scipy import stats

    known = [estimate(list(group.values())) for group in groups]
    of_seed: dict[int, float] = {}
    variances = []
    for group, own in zip(groups, known, strict=True):
        assert own.std is not None, "a group needs two values at least"
        n = len(group)
        variances.append((own.std / len(groups)) ** 2 / n)
        weight = 1 / (len(groups) * math.sqrt(n * (n - 1)))
        for seed, value in group.items():
            of_seed[seed] = of_seed.get(seed, 0.0) + weight * (value - own.mean)
    mean = math.fsum(one.mean for one in known) / len(groups)
    error = math.sqrt(math.fsum(value**2 for value in of_seed.values()))
    spread = math.fsum(v**2 / (len(group) - 1) for v, group in zip(variances, groups, strict=True))
    freedom = min(math.fsum(variances) ** 2 / spread, len(of_seed) - 1) if spread else len(of_seed) - 1
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    pairs = sum(map(len, groups))
    return Ratio(mean, mean - half, mean + half, "", pairs=pairs, p=student_p(mean - 1, error, freedom))


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
    bound = BOUNDS[any(pair[2] for pair in known), any(pair[3] for pair in known)]
    left_out = len(pairs) - len(known)
    if logs.std is None:
        return Ratio(math.exp(logs.mean), None, None, bound, left_out, len(known))
    low, high = student_interval(logs.values)
    p = student_p(logs.mean, logs.std / math.sqrt(len(known)), len(known) - 1)
    return Ratio(math.exp(logs.mean), math.exp(low), math.exp(high), bound, left_out, len(known), p)
