"""Adam on the server: FedAdam (Reddi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.server_optimizers._adaptive import Adaptive, Decay


@dataclass(frozen=True)
class Adam(Adaptive):
    """m ← β₁m + (1−β₁)Δ̄; v ← β₂v + (1−β₂)Δ̄²; w ← w + η_g·m/(√v + τ); v starts at τ², no bias correction"""

    title = "Adam over the rounds (FedAdam)"

    beta2: Decay = 0.99
    """β₂, decay of the second moment"""

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square
