"""What a task is: the loss of a batch, scores as sums over blocks of samples, and which score a target is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedtrip.registry import Rule

if TYPE_CHECKING:  # goals are read where nothing else needs PyTorch
    from torch import Tensor

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

    def best(self, scores: Iterable[float]) -> float | None:
        """The best of some scores; None if there are none."""
        return (max if self.higher_is_better else min)(scores, default=None)

    def shown(self, score: float) -> str:
        """A score as people read it."""
        return f"{score:.2%}" if self.is_share else f"{score:.4g}"

    def shown_target(self, target: float) -> str:
        """A target as people read it."""
        return f"{target:.0%}" if self.is_share else f"{target:g}"

    @property
    def sign(self) -> str:
        """How a score that reached the target compares with it."""
        return "≥" if self.higher_is_better else "≤"

    def check_target(self, target: float) -> None:
        """Refuse a target that no score can have; raises `ValueError`, with what is accepted."""
        if self.is_share and target <= 0:
            raise ValueError(f"target is {target}; accepted: greater than 0")
        if self.is_share and target > 1:
            raise ValueError(f"target is {target}; accepted: less than or equal to 1")


ACCURACY = Goal("accuracy", is_share=True)


@dataclass(frozen=True)
class Task(Rule):
    """Base of the tasks."""

    goal: ClassVar[Goal]
    """The score that a target is about."""
    targets: ClassVar[Literal["classes", "numbers"]] = "classes"
    """What y holds: class numbers from 0 as int64, or numbers as float32."""
    flat_outputs: ClassVar[bool] = False
    """Whether a model with one output may also return shape (n,) in place of (n, 1)."""

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
        """What a block of samples adds to the scores, by name; `loss` is among them.

        A score of one's own that is a mean over the samples is one more entry here, and nothing else.
        """
        raise NotImplementedError

    def scores(self, sums: Mapping[str, float], samples: int) -> dict[str, float]:
        """The scores of a whole test set from its sums, by default their means; `loss` and the goal are among them."""
        return {name: total / samples for name, total in sums.items()}
