"""Adagrad on the server: FedAdagrad (Reddi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.server_optimizers._adaptive import Adaptive, Decay


@dataclass(frozen=True)
class Adagrad(Adaptive):
    """m ← β₁m + (1−β₁)Δ̄; v ← v + Δ̄²; w ← w + η_g·m/(√v + τ); v starts at τ², β₁ = 0 as in the paper"""

    title = "Adagrad over the rounds (FedAdagrad)"

    beta1: Decay = 0.0
    """β₁, decay of the mean"""

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return v + square
