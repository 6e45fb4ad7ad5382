"""Adam (Kingma and Ba, 2015) on the flat vector."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.optimizers._moments import Moments
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class Adam(Moments):
    """m ← β₁m + (1−β₁)h; v ← β₂v + (1−β₂)h²; w ← w − η·m̂/(√v̂ + ε), weight decay as part of h"""

    title = "Adam; weight decay is coupled, as L2"

    def step(self, w: Tensor, h: Tensor, state: Vectors, *, lr: float, linear: float, decay: float) -> None:
        if linear + decay:
            axpy(h, linear + decay, w)
        self.move(w, h, state, lr)
