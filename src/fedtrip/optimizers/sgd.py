"""Stochastic gradient descent with momentum, in one fused pass over the vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.fixed_math import power
from fedtrip.optimizers.interface import Optimizer
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Sgd(Optimizer):
    """m ← βm + h + λw; w ← w − η·m, with the momentum m zero at the start of a round"""

    title = "stochastic gradient descent with momentum"

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """β, the momentum"""

    def start(self, w: Tensor) -> Vectors:
        return {"momentum": torch.zeros_like(w)} if self.momentum else {}

    def step(self, w: Tensor, h: Tensor, state: Vectors, *, lr: float, linear: float, decay: float) -> None:
        # torch.optim.SGD's own kernel: an affine correction costs nothing more than weight decay
        torch._fused_sgd_(
            [w], [h], [state["momentum"]] if self.momentum else [],
            lr=lr, momentum=self.momentum, weight_decay=decay + linear, dampening=0.0, nesterov=False, maximize=False,
            is_first_step=False,
        )  # fmt: skip

    def travel(self, lr: float, steps: int, *, kept: bool) -> float:
        """η Σ_j (1 − β^j)/(1 − β); with kept momentum every step is η/(1 − β) long, as if it had always been so."""
        beta = self.momentum
        lost = 0.0 if kept else beta * (1 - power(beta, steps)) / (1 - beta)
        return lr * (steps - lost) / (1 - beta)

    def travel_with(self, prox: float, lr: float, steps: int, *, kept: bool) -> float:
        """−x after so many times m ← βm + 1 + μx, x ← x − ηm from x = 0; kept momentum is 1/(1 − β) at the start."""
        beta, x = self.momentum, 0.0
        m = 1 / (1 - beta) if kept else 0.0
        for _ in range(steps):
            m = beta * m + 1 + prox * x
            x -= lr * m
        return -x

    @property
    def operations(self) -> int:
        return 1 + (self.momentum > 0)
