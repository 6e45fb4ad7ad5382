"""What the method proposes is the next global model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.server_optimizers.interface import ServerOptimizer
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class NoServerOptimizer(ServerOptimizer):
    """w ← what the method proposes"""

    title = "the method's own result"
    is_identity = True

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        return proposed, state
