"""What a task is: the loss of a batch, scores as sums over blocks of samples, and which score a target is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedtrip.errors import UserError
from fedtrip.registry import Rule
from fedtrip.targets import FITTING_TASK, IN_WORDS, TargetKind, kind_of

if TYPE_CHECKING:  # goals are read where nothing else needs NumPy or PyTorch
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Kept:
    """Something of every sample, block after block: for scores that are no sums, such as AUC."""

    blocks: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, values: Tensor) -> Kept:
        """What a block keeps, one row a sample."""
        return cls((values.numpy().copy(),))

    def __add__(self, later: Kept) -> Kept:
        return Kept(self.blocks + later.blocks)

    @property
    def values(self) -> NDArray[Any]:
        """Those of all samples, in their order."""
        import numpy

        return numpy.concatenate(self.blocks)


Sums = dict[str, Any]
"""What is put together over the blocks of a test set, in their order, each under a name: numbers and arrays are added,
what is `Kept` is appended."""


@dataclass(frozen=True)
class Goal:
    """The score that a target is about, and in which direction it is good."""

    score: str
    higher_is_better: bool = True
    is_share: bool = False
    """whether it lies between 0 and 1, so that people read it in per cent"""

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
_FURTHER = ("balanced_accuracy", "macro_f1", "f1", "exact_match", "auc", "macro_auc")
SHARES = {ACCURACY.score: ACCURACY, **{name: Goal(name, is_share=True) for name in _FURTHER}}
"""The goals of our tasks that lie between 0 and 1, by the name of their score."""


@dataclass(frozen=True)
class Task(Rule):
    """Base of the tasks."""

    targets: ClassVar[TargetKind] = "classes"
    """What y holds: see `fedtrip.targets`."""
    has_class_logits: ClassVar[bool] = False
    """Whether a model's outputs are one logit for each class, which some methods compare."""
    flat_outputs: ClassVar[bool] = False
    """Whether a model with one output may also return shape (n,) in place of (n, 1)."""

    @property
    def goal(self) -> Goal:
        """The score that a target is about: a class attribute, or a property where an option chooses it."""
        raise NotImplementedError

    def check(self, y: Tensor) -> None:
        """Raise `UserError` for targets that do not fit the task, and name the one that does."""
        kind = kind_of(y)
        if kind != self.targets:
            raise UserError(
                f"task '{type(self).__name__.lower()}' wants {IN_WORDS[self.targets]}, but the targets are "
                f"{IN_WORDS[kind]}; accepted: such targets, or task {FITTING_TASK[kind]}"
            )

    def check_classes(self, classes: int) -> None:
        """Raise `UserError` for a number of classes (0 for numbers) that does not fit the task."""

    def outputs(self, classes: int) -> int:
        """Outputs of a model for each sample, or for each place of a sequence."""
        raise NotImplementedError

    def output_shape(self, classes: int, y: Tensor) -> tuple[int, ...] | None:
        """The shape of a model's outputs for one sample, of which `y` are some targets; None if any will do."""
        return (self.outputs(classes),)

    def count(self, y: Tensor) -> float:
        """What the summed loss of a batch is divided by: its samples, or what else the loss is a mean over."""
        return len(y)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch, its mean; differentiable. 0 where nothing counts."""
        return self.summed_loss(outputs, y) / (self.count(y) or 1)

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch, summed over its samples; differentiable."""
        raise NotImplementedError

    def summed_gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The gradient of `summed_loss` by the outputs, in float32 and in their shape, if the task has a closed form.

        It is made of operations that have the same bits on every CPU. Where it is missing autograd computes it.
        """
        raise NotImplementedError

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        """What a block of samples adds to the scores, by name; `loss` is among them.

        A score of one's own that is a mean over the samples is one more entry here, and nothing else.
        """
        raise NotImplementedError

    def scores(self, sums: Mapping[str, Any], samples: int) -> dict[str, float]:
        """The scores of a whole test set from its sums, by default their means; `loss` and the goal are among them."""
        return {name: total / samples for name, total in sums.items()}

    def in_detail(self) -> Task:
        """The same task with every score that it knows, also those that take longer."""
        return self

    def predicted_classes(self, outputs: Tensor) -> Tensor:
        """The class that each sample's outputs mean, where the targets are classes."""
        return outputs.argmax(1)


def has_closed_gradient(task: Task) -> bool:
    """Whether `summed_gradient` is that of the task's loss: no subclass changed the loss without it."""
    depth = {name: next(at for at, cls in enumerate(type(task).__mro__) if name in vars(cls)) for name in _OF_LOSS}
    own = depth["summed_gradient"]
    return type(task).__mro__[own] is not Task and all(own <= at for at in depth.values())


_OF_LOSS = ("summed_gradient", "summed_loss", "loss", "count")
