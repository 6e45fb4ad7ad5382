"""The best round so far on the validation set, and whether it is worth going on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedtrip.rounds.record import RoundRecord
from fedtrip.tasks.interface import Goal


@dataclass
class BestSoFar:
    """Follows the validation score from round to round; of equal scores the first is the best."""

    goal: Goal
    patience: int | None = None
    round: int | None = None
    """the best round"""
    score: float | None = None
    since: int = 0
    """evaluations since then"""

    def take(self, record: RoundRecord) -> bool:
        """Look at the next round; whether it is the best so far."""
        if not record.validation:  # not evaluated
            return False
        score = record.validation.get(self.goal.score)
        if score is not None and (self.score is None or self.goal.better(score, self.score)):
            self.round, self.score, self.since = record.round, score, 0
            return True
        self.since += 1
        return False

    @property
    def is_exhausted(self) -> bool:
        """Whether so many evaluations as patience allows brought nothing better."""
        return self.patience is not None and self.since >= self.patience


def best_round(records: Sequence[RoundRecord], goal: Goal) -> int | None:
    """The round with the best score on the validation set; None if none has one."""
    best = BestSoFar(goal)
    for record in records:
        best.take(record)
    return best.round
