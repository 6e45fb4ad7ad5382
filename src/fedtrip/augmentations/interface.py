"""What an augmentation is: a random change of the inputs of each training batch.

It sees inputs as the model does, normalised, and only in training: never in an evaluation, a full gradient or a pass
through a frozen model. Its draws come from a generator of their own for every step, a function of seed, round,
exchange, client, training and step, so that no engine and no number of workers can change a bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.inputs import Inputs, InputSpec
from fedtrip.registry import Rule


@dataclass(frozen=True)
class Augment(Rule):
    """Base of the augmentations."""

    def __call__(self, x: Inputs, rng: np.random.Generator) -> Inputs:
        """The changed inputs of a batch, of the same shape; `x` itself stays as it is.

        Draws are made by the functions of `fedtrip.randomness`, whose bits are the same everywhere.
        """
        raise NotImplementedError

    def check(self, inputs: InputSpec) -> None:
        """Raise `UserError` if samples with such inputs cannot be changed so."""


@dataclass(frozen=True)
class OfNumbers(Augment):
    """Base of those that change one input of numbers."""

    def __call__(self, x: Inputs, rng: np.random.Generator) -> Inputs:
        assert isinstance(x, Tensor)  # as `check` saw
        return self.changed(x, rng)

    def changed(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """The changed inputs (B, …)."""
        raise NotImplementedError

    def check(self, inputs: InputSpec) -> None:
        if not inputs.is_numbers:
            raise UserError(
                f"augment changes one input of numbers, but the samples have {inputs}; accepted: none, or your own as "
                "package.module:Class"
            )


@dataclass(frozen=True)
class OfImages(OfNumbers):
    """Base of those that change images (channels, height, width)."""

    def check(self, inputs: InputSpec) -> None:
        super().check(inputs)
        if len(inputs.shape) != 3:
            raise UserError(
                "augment changes images of shape (channels, height, width), but the samples have shape "
                f"{inputs.shape}; accepted: none, noise:SIGMA, or your own as package.module:Class"
            )
