"""A claim of the paper beside our figure, and the rule by which it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.comparison.tables import interval
from fedtrip.statistics import Ratio

REPRODUCED, PARTLY, NOT, OPEN = "reproduced", "partly", "not", "open: nothing measured yet"
UNSURE = "reproduced, but the interval holds 1 too"
ONE_TRIAL = "open: one trial has no interval"
FEWEST_SEEDS = 2
"""An interval needs at least so many trials."""


@dataclass(frozen=True)
class Verdict:
    """One row of the table of claims."""

    claim: str
    paper: str
    recomputed: str
    """the same from the paper's own tables; '' where it has nothing to be computed from"""
    ours: str
    verdict: str
    p: float | None = None
    """of Student's t test that there is no difference, paired by seed; None where the claim is no such comparison"""


def verdict_of(ratio: Ratio | None, paper: float) -> str:
    """*reproduced* if the 95 % interval holds the paper's ratio; *partly* if both lie on one side of 1; else *not*.

    An interval that holds both the paper's ratio and 1 is said to: more trials would tell.

    A bound that comes from censored runs is judged as if the last round had reached the target.
    """
    if ratio is None:
        return OPEN
    if ratio.low is None or ratio.high is None:
        return ONE_TRIAL
    if ratio.low <= paper <= ratio.high:
        return REPRODUCED if not ratio.low <= 1 <= ratio.high else UNSURE
    same_side = (ratio.low > 1 and paper > 1) or (ratio.high < 1 and paper < 1)
    return PARTLY if same_side else NOT


def p_of(ratio: Ratio | None) -> float | None:
    """The p-value of a ratio, if there is one."""
    return None if ratio is None else ratio.p


def told(ratio: Ratio | None) -> str:
    """A ratio with its interval, or nothing."""
    return "" if ratio is None else interval(ratio)
