"""Yogi on the server: FedYogi (Reddi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.server_optimizers._adaptive import Adaptive, Decay


@dataclass(frozen=True)
class Yogi(Adaptive):
    """m ← β₁m + (1−β₁)Δ̄; v ← v − (1−β₂)Δ̄²·sign(v − Δ̄²); w ← w + η_g·m/(√v + τ); v starts at τ²"""

    title = "Yogi over the rounds (FedYogi)"

    beta2: Decay = 0.99
    """β₂, how fast the second moment follows"""

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return v - (1 - self.beta2) * square * (v - square).sign()
