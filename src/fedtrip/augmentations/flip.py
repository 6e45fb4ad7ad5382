"""Images turned left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.augmentations.interface import OfImages
from fedtrip.randomness import uniforms


@dataclass(frozen=True)
class Flip(OfImages):
    """x[c, i, W − 1 − j] in place of x[c, i, j] with probability p, for each image on its own"""

    title = "images turned left to right, each with probability p"

    p: Annotated[float, Field(ge=0, le=1)] = 0.5
    """p, the probability that an image is turned"""

    def changed(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        is_turned = torch.from_numpy(uniforms(rng, len(x)) < self.p).reshape(-1, 1, 1, 1)
        return torch.where(is_turned, x.flip(-1), x)
