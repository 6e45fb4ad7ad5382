"""How good a configuration is at the end of a rung, by its runs' scores on the validation set and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.history import LAST_ROUNDS
from fedtrip.tasks.interface import Goal

WITH_TARGET = (
    f"rounds to the target on the validation set, mean over the trials (one that never got there counts as the rung's "
    f"last round); of equal ones the {{better}} validation {{score}}, mean of the last {LAST_ROUNDS} evaluated rounds"
)
WITHOUT_TARGET = f"validation {{score}}, mean of the last {LAST_ROUNDS} evaluated rounds and over the trials"
DIVERGED = "a configuration of which a trial diverged is behind all others"


@dataclass(frozen=True)
class Standing:
    """A configuration at the end of a rung."""

    until: int
    """the rung's last round"""
    reached: tuple[int | None, ...]
    """each trial's first round whose validation score is as good as the target; None if there is none"""
    scores: tuple[float | None, ...]
    """each trial's final validation score; None if it diverged"""
    run: int
    """rounds that its trials have run so far"""

    @property
    def diverged(self) -> int:
        """Trials that diverged."""
        return sum(score is None for score in self.scores)

    @property
    def rounds(self) -> float:
        """Mean rounds to the target."""
        return math.fsum(self.until if number is None else number for number in self.reached) / len(self.reached)

    @property
    def score(self) -> float | None:
        """Mean final score of the trials that have one."""
        known = [score for score in self.scores if score is not None]
        return math.fsum(known) / len(known) if known else None


def standing(trials: Sequence[Sequence[RoundRecord]], until: int, target: float | None, goal: Goal) -> Standing:
    """The standing of a configuration whose trials have these records, of which only the first `until` count.

    The rung's last round is an evaluated one. A run that diverged has none, or no finite score there.
    """
    scores, reached = [], []
    for records in trials:
        rung = records[:until]
        known = [score for record in rung if (score := record.validation.get(goal.score)) is not None]
        ended = len(rung) < until or rung[-1].validation.get(goal.score) is None
        scores.append(None if ended else math.fsum(known[-LAST_ROUNDS:]) / len(known[-LAST_ROUNDS:]))
        reached.append(None if target is None else _first_reaching(rung, target, goal))
    return Standing(until, tuple(reached), tuple(scores), sum(len(records[:until]) for records in trials))


def _first_reaching(records: Sequence[RoundRecord], target: float, goal: Goal) -> int | None:
    scores = ((record.round, record.validation.get(goal.score)) for record in records)
    return next((number for number, score in scores if score is not None and goal.reaches(score, target)), None)


def ranked(standings: Mapping[int, Standing], goal: Goal) -> list[int]:
    """The configurations, the best first: by diverged trials, rounds to the target, score; then the earlier number.

    Without a target nobody has reached it, and the score decides.
    """

    def rank(number: int) -> tuple[float, float, float, int]:
        one = standings[number]
        score = 0.0 if one.score is None else -one.score if goal.higher_is_better else one.score
        return one.diverged, one.rounds, score, number

    return sorted(standings, key=rank)


def objective(goal: Goal, target: float | None) -> str:
    """What is judged, in words."""
    better = "higher" if goal.higher_is_better else "lower"
    told = WITHOUT_TARGET if target is None else WITH_TARGET
    return f"{told.format(score=goal.score, better=better)}; {DIVERGED}"
