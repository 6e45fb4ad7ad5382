"""Images shifted by some pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import pad

from fedtrip.augmentations.interface import OfImages
from fedtrip.errors import UserError
from fedtrip.inputs import InputSpec
from fedtrip.randomness import uniforms


@dataclass(frozen=True)
class Crop(OfImages):
    """x[c, i + a, j + b] for x[c, i, j], a and b uniform in −pixels … pixels for each image; 0 beyond the border"""

    title = "images shifted by up to so many pixels: padded with the mean, and cut to their size again"
    parameter = "pixels"

    pixels: Annotated[int, Field(ge=1)]
    """longest shift in each direction"""

    def changed(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        height, width = x.shape[-2:]
        starts = torch.from_numpy((uniforms(rng, 2 * len(x)) * (2 * self.pixels + 1)).astype(np.int64)).reshape(-1, 2)
        rows = (starts[:, 0, None] + torch.arange(height)).reshape(-1, 1, height, 1)
        columns = (starts[:, 1, None] + torch.arange(width)).reshape(-1, 1, 1, width)
        images, channels = torch.arange(len(x)).reshape(-1, 1, 1, 1), torch.arange(x.shape[1]).reshape(1, -1, 1, 1)
        return pad(x, (self.pixels,) * 4)[images, channels, rows, columns]

    def check(self, inputs: InputSpec) -> None:
        super().check(inputs)
        if self.pixels >= min(inputs.shape[1:]):
            raise UserError(
                f"augment 'crop:{self.pixels}' could leave nothing of images of {inputs.shape[1]}×{inputs.shape[2]} "
                f"pixels; accepted: at most {min(inputs.shape[1:]) - 1}"
            )
