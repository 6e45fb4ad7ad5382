"""Noise on every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.augmentations.interface import OfNumbers
from fedtrip.randomness import normals


@dataclass(frozen=True)
class Noise(OfNumbers):
    """x + σ·z, z normal of mean 0 and variance 1 for every number; σ is in units of the data set's deviation"""

    title = "Gaussian noise on every number"
    parameter = "sigma"

    sigma: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """σ, the noise's deviation"""

    def changed(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        drawn = (self.sigma * normals(rng, x.numel())).astype(np.float32)
        return x + torch.from_numpy(drawn).reshape(x.shape)
