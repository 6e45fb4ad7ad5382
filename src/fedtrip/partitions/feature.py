"""Feature shift: all clients have the same classes, and each sees its inputs in its own way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.inputs import Inputs, InputSpec
from fedtrip.partitions.iid import Iid
from fedtrip.partitions.interface import Partition, ToPartition
from fedtrip.randomness import normals, stream

SIGMA = 0.5


@dataclass(frozen=True)
class Feature(Iid):
    """samples as with iid; client k of N sees x + σ·(k/N)·ε, ε ~ N(0, 1) (noise), or x turned by ⌊4k/N⌋·90° (rotation)

    The noise is that of Li et al. (2022), on normalised inputs; a sample's is always the same. The test set stays as
    it is.
    """

    title = (
        "samples as with iid, inputs changed for each client: noise that grows with its number (feature:noise:SIGMA), "
        "or quarter turns of images (feature:rotation)"
    )
    parameter = "shift"
    second_parameter = "sigma"

    shift: Literal["noise", "rotation"]
    """what the clients' inputs differ in"""
    sigma: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """σ of the noise, in units of the normalised inputs (0.5 if left out)"""

    def __post_init__(self) -> None:
        if self.shift == "rotation" and self.sigma is not None:
            raise UserError(
                f"partition 'feature:rotation': option 'sigma' is {self.sigma}, which is the noise's; accepted: nothing"
            )

    def __call__(self, data: ToPartition) -> Partition:
        drawn = super().__call__(data)
        if self.shift == "noise":
            self._check(data.inputs, data.inputs.is_numbers, "one input of numbers")
            sigma = SIGMA if self.sigma is None else self.sigma
            return ShiftedPartition(drawn, Noise(sigma, data.clients, data.seed))
        shape = data.inputs.shape if data.inputs.kind == "one" else ()
        square = data.inputs.is_numbers and len(shape) in (2, 3) and shape[-1] == shape[-2]
        self._check(data.inputs, square, "square images, of shape (side, side) or (channels, side, side)")
        return ShiftedPartition(drawn, Rotation(data.clients))

    def _check(self, inputs: InputSpec, fits: bool, accepted: str) -> None:
        if not fits:
            raise UserError(f"partition '{self.text}' does not fit samples of {inputs}; accepted: {accepted}")


@dataclass(frozen=True)
class ShiftedPartition:
    """A partition whose clients see their inputs changed: `shift(client, samples, x)`."""

    partition: Partition
    shift: Callable[[int, Tensor, Tensor], Tensor]

    @property
    def clients(self) -> int:
        return self.partition.clients

    def samples(self, client: int) -> int:
        return self.partition.samples(client)

    def share(self, client: int) -> Tensor:
        return self.partition.share(client)

    def transformed(self, client: int, samples: Tensor, x: Inputs) -> Inputs:
        assert isinstance(x, Tensor)
        return self.shift(client, samples, x)


@dataclass(frozen=True)
class Noise:
    """x_i + σ·(k/N)·ε_i for sample i of client k, ε_i a function of (seed, k, i) alone."""

    sigma: float
    clients: int
    seed: int

    def __call__(self, client: int, samples: Tensor, x: Tensor) -> Tensor:
        level = self.sigma * (client / self.clients)
        noise = np.empty((len(x), math.prod(x.shape[1:])), dtype=np.float32)
        for row, sample in enumerate(samples.tolist()):
            noise[row] = level * normals(stream(self.seed, "feature noise", client, sample), noise.shape[1])
        return x + torch.from_numpy(noise).reshape(x.shape)


@dataclass(frozen=True)
class Rotation:
    """x turned by ⌊4k/N⌋ quarter turns for client k: pixels change their places, so no bit of them does."""

    clients: int

    def __call__(self, client: int, samples: Tensor, x: Tensor) -> Tensor:
        return torch.rot90(x, 4 * client // self.clients, dims=(-2, -1)).contiguous()
