"""What computes a client's gradients and outputs: torch or the native engine, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedtrip.inputs import Inputs, taken
from fedtrip.methods.interface import Correction, ExtraLoss
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
    extra_loss: ExtraLoss | None
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
