"""What FedAdam and FedYogi share beside their server optimizers: the bias correction of the authors' code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedtrip.fixed_math import power
from fedtrip.server_optimizers._adaptive import Adaptive, Decay
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class BiasCorrection(Adaptive):
    """η_g·√(1−β₂ᵗ)/(1−β₁ᵗ) in place of η_g in the server's t-th step, with v from 0"""

    beta2: Decay = 0.99
    bias_correction: bool = False
    """whether m and v are corrected for their first rounds and v starts at 0, as in the authors' code"""

    def start(self, w: Tensor) -> Vectors:
        if not self.bias_correction:
            return super().start(w)
        zero = torch.zeros_like(w, dtype=torch.float64)
        return {"m": zero, "v": zero, "steps": torch.zeros(1, dtype=torch.int64)}

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        stepped, after = super().__call__(w, proposed, state)
        if not self.bias_correction:
            return stepped, after
        steps = state["steps"] + 1
        t = int(steps)
        correction = math.sqrt(1 - power(self.beta2, t)) / (1 - power(self.beta1, t))
        return w + correction * (stepped - w), {**after, "steps": steps}
