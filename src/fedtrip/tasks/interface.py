"""What a task is: the loss of a batch, scores as sums over blocks of samples, and which score a target is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedtrip.registry import Rule

Sums = dict[str, float]
"""What is added up over the blocks of a test set, in their order."""


@dataclass(frozen=True)
class Goal:
    """The score that a target is about, and in which direction it is good."""

    score: str
    higher_is_better: bool = True
    is_share: bool = False
    """whether it is a share of all samples, which people read in per cent"""

    def reaches(self, score: float, target: float) -> bool:
        """Whether a score is as good as the target."""
        return score >= target if self.higher_is_better else score <= target

    def better(self, one: float, other: float) -> bool:
        """Whether one score is better than another."""
        return one > other if self.higher_is_better else one < other


ACCURACY = Goal("accuracy", is_share=True)


@dataclass(frozen=True)
class Task(Rule):
    """Base of the tasks."""

    goal: ClassVar[Goal]
    """The score that a target is about."""

    def check(self, y: Tensor) -> None:
        """Raise `UserError` for targets that do not fit the task, and name the one that does."""

    def outputs(self, classes: int) -> int:
        """Outputs of a model for each sample."""
        raise NotImplementedError

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch, its mean over the samples; differentiable."""
        raise NotImplementedError

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch, summed over its samples; differentiable."""
        raise NotImplementedError

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        """What a block of samples adds to the scores; `loss` is among them."""
        raise NotImplementedError

    def scores(self, sums: Mapping[str, float], samples: int) -> dict[str, float]:
        """The scores of a whole test set from its sums; `loss` and the goal are among them."""
        raise NotImplementedError
