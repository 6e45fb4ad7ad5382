"""AdamW (Loshchilov and Hutter, 2019): weight decay beside the step, not in it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.optimizers._moments import Moments
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class AdamW(Moments):
    """w ← w − ηλw; then Adam's step with h, of which a method's correction is a part, but not the decay"""

    title = "Adam with decoupled weight decay"

    def step(self, w: Tensor, h: Tensor, state: Vectors, *, lr: float, linear: float, decay: float) -> None:
        if linear:
            axpy(h, linear, w)
        if decay:
            w.mul_(1 - lr * decay)
        self.move(w, h, state, lr)
