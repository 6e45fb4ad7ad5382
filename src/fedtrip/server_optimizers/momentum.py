"""Heavy-ball momentum on the server: FedAvgM (Hsu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.server_optimizers.interface import ServerOptimizer
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Momentum(ServerOptimizer):
    """u ← βu + (w − proposed); w ← w − η_g·u"""

    title = "heavy-ball momentum over the rounds (FedAvgM)"
    operations = 2

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """β, the server's momentum"""
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """η_g, the server's learning rate"""

    def start(self, w: Tensor) -> Vectors:
        return {"u": torch.zeros_like(w, dtype=torch.float64)}

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        u = self.beta * state["u"] + (w - proposed)
        return w - self.lr * u, {"u": u}
