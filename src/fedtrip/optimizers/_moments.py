"""What Adam and AdamW share: the two moments and the step they make."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.fixed_math import power
from fedtrip.optimizers.interface import Optimizer
from fedtrip.vectors import Vectors, axpy, square_root

Decay = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Moments(Optimizer):
    """m ← β₁m + (1−β₁)h; v ← β₂v + (1−β₂)h²; w ← w − η·m̂/(√v̂ + ε), m̂ and v̂ corrected for their start at zero"""

    beta1: Decay = 0.9
    """β₁, decay of the mean"""
    beta2: Decay = 0.999
    """β₂, decay of the second moment"""
    eps: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-8
    """ε, which keeps the division finite"""

    def start(self, w: Tensor) -> Vectors:
        return {"mean": torch.zeros_like(w), "square": torch.zeros_like(w), "steps": torch.zeros(1, dtype=torch.int64)}

    def move(self, w: Tensor, h: Tensor, state: Vectors, lr: float) -> None:
        """One step with the direction h, whose place is then used for what the step is made of."""
        m, v = state["mean"], state["square"]
        state["steps"] += 1
        step = int(state["steps"])
        axpy(m.mul_(self.beta1), 1 - self.beta1, h)
        axpy(v.mul_(self.beta2), 1 - self.beta2, h.mul_(h))
        root = square_root(v, out=h).div_(math.sqrt(1 - power(self.beta2, step))).add_(self.eps)
        axpy(w, -lr / (1 - power(self.beta1, step)), torch.div(m, root, out=h))

    def travel(self, lr: float, steps: int, *, kept: bool) -> None:
        """Its steps do not follow the gradient's length: there is no such distance."""
        return

    @property
    def operations(self) -> int:
        return 5
