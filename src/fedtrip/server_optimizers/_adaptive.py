"""What Adagrad, Adam and Yogi on the server share (Reddi et al., 2021): they differ in v alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.server_optimizers.interface import ServerOptimizer
from fedtrip.vectors import Vectors, square_root

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Adaptive(ServerOptimizer):
    """m ← β₁m + (1−β₁)Δ̄; v from Δ̄²; w ← w + η_g·m/(√v + τ), v starts at τ², no bias correction as in the paper"""

    operations = 6

    lr: Rate = 0.01
    """η_g, the server's learning rate; the paper tunes it for every task"""
    beta1: Decay = 0.9
    """β₁, decay of the mean"""
    tau: Rate = 1e-3
    """τ, degree of adaptivity"""

    def start(self, w: Tensor) -> Vectors:
        zero = torch.zeros_like(w, dtype=torch.float64)
        return {"m": zero, "v": zero + self.tau * self.tau}

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """v after a round in which the pseudo-gradient's square was this."""
        raise NotImplementedError

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        delta = proposed - w
        m = self.beta1 * state["m"] + (1 - self.beta1) * delta
        v = self.second_moment(state["v"], delta * delta)
        return w + self.lr * m / (square_root(v) + self.tau), {"m": m, "v": v}
