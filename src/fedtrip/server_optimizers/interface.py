"""What a server optimizer is: a step from the global model towards the one that a method proposes.

The proposal's difference to the model before, Δ̄ = proposed − w, is a pseudo-gradient (Reddi et al., 2021). All of it is
float64; a module's buffers are not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedtrip.registry import Rule
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class ServerOptimizer(Rule):
    """Base of the server optimizers."""

    is_identity: ClassVar[bool] = False
    """Whether the proposal is taken as it is."""
    operations: ClassVar[int] = 0
    """Multiply-adds for each parameter and round."""

    def start(self, w: Tensor) -> Vectors:
        """What it keeps from round to round, before the first one."""
        return {}

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        """The model after the step, and the new state."""
        raise NotImplementedError
