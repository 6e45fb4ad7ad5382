"""What computes a client's gradients and outputs: torch or the native engine, behind one interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

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

    x: Tensor
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


class Scorer(Protocol):
    """Scores a model."""

    def load(self, model: Mapping[str, Tensor]) -> None:
        """The model that is meant from now on."""

    def sums(self, x: Tensor, y: Tensor) -> Sums:
        """What these samples add to the task's scores under the loaded model."""


class Trainer(Scorer, Protocol):
    """Trains a model, and looks at it as it is; the loaded one lies in the flat model's w."""

    def train(self, training: Training) -> None:
        """All local steps, in place on w."""

    def add_gradient(self, x: Tensor, y: Tensor) -> None:
        """Add the gradient of the loss, summed over these samples, to g; dropout is off."""

    def outputs(self, x: Tensor) -> Tensor:
        """The model's outputs, in eval mode, without gradient."""

    def representations(self, x: Tensor) -> Tensor:
        """Its representations of the samples, likewise."""
