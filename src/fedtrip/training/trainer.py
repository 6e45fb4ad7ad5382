"""What computes a client's gradients and outputs: torch or the native engine, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.inputs import Inputs, taken
from fedtrip.methods.interface import BatchLoss, Correction, Direction
from fedtrip.optimizers._clip import Clip
from fedtrip.optimizers.interface import Optimizer
from fedtrip.tasks.interface import Sums
from fedtrip.vectors import Vectors

FROZEN_BATCH = 500
"""Samples at once where no optimizer step depends on it: frozen networks, full gradients, evaluation."""


@dataclass(frozen=True)
class Training:
    """One client's local training: its samples, in which order they come, and what makes a step of a gradient."""

    x: Inputs
    y: Tensor
    order: Tensor
    """(epochs, samples): the rows of x in the order in which each epoch takes them"""
    batch_size: int
    lr: float
    decay: float
    """λ of weight decay"""
    optimizer: Optimizer
    state: Vectors
    """the optimizer's, changed in place"""
    clip: Clip | None
    correction: Correction | None
    direction: Direction | None
    """where else the optimizer's direction comes from; never together with a correction"""
    loss: BatchLoss | None
    """what is trained on in place of the task's loss"""
    extra_loss: BatchLoss | None
    """what is added to it"""
    frozen: Tensor | None
    """the places of w that keep their bits"""
    dropout_key: int
    """what dropout draws from, together with the number of the step"""
    augment: Callable[[Inputs, int], Inputs] | None
    """the random change of a batch's inputs, given the number of the step; None if they stay as they are"""

    def batches(self) -> Iterator[tuple[int, Tensor]]:
        """The number of each step and the rows of its batch."""
        return enumerate(rows for epoch in self.order for rows in torch.split(epoch, self.batch_size))

    def batch(self, rows: Tensor, step: int) -> Inputs:
        """The inputs of a step's batch."""
        x = taken(self.x, rows)
        return x if self.augment is None else self.augment(x, step)

    @property
    def is_plain(self) -> bool:
        """Whether a step is the task's gradient with a correction, and nothing else of the method's."""
        return self.direction is None and self.loss is None and self.extra_loss is None and self.frozen is None

    def hold(self, vector: Tensor) -> None:
        """Make a gradient or a step zero where nothing is to move."""
        if self.frozen is not None:
            vector.masked_fill_(self.frozen, 0.0)

    def put_back(self, w: Tensor, start: Tensor) -> None:
        """Undo what weight decay, or a part of a correction, did where nothing is to move."""
        if self.frozen is not None:
            torch.where(self.frozen, start, w, out=w)

    def forget_frozen(self) -> None:
        """The optimizer keeps nothing of what did not move."""
        for vector in self.state.values():
            if self.frozen is not None and vector.shape == self.frozen.shape:
                vector.masked_fill_(self.frozen, 0)


def of_the_model(vector: Tensor, w: Tensor, what: str) -> Tensor:
    """A vector that a method's direction gave, where w is and as precise; refused where it is none like w: a single
    number would be spread over all parameters."""
    if vector.shape != w.shape or not vector.is_floating_point():
        raise UserError(
            f"the method {what} a tensor of {vector.dtype} and shape {tuple(vector.shape)}; accepted: {w.numel()} "
            "numbers, one for each parameter"
        )
    return vector.to(w)


class Scorer(Protocol):
    """Scores a model."""

    def load(self, model: Mapping[str, Tensor]) -> None:
        """The model that is meant from now on."""

    def sums(self, x: Inputs, y: Tensor) -> Sums:
        """What these samples add to the task's scores under the loaded model."""


class Trainer(Scorer, Protocol):
    """Trains a model, and looks at it as it is; the loaded one lies in the flat model's w."""

    def train(self, training: Training) -> None:
        """All local steps, in place on w."""

    def add_gradient(self, x: Inputs, y: Tensor) -> None:
        """Add the gradient of the loss, summed over these samples, to g; dropout is off."""

    def outputs(self, x: Inputs) -> Tensor:
        """The model's outputs, in eval mode, without gradient."""

    def representations(self, x: Inputs) -> Tensor:
        """Its representations of the samples, likewise."""
