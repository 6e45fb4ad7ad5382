"""Binary cross entropy of a logit z with y 0 or 1, p the weight of y = 1:

ℓ(z, y) = p·y·log(1 + e^−z) + (1 − y)·log(1 + e^z)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedtrip.vectors import sigmoid, softplus, total


def summed_loss(logits: Tensor, y: Tensor, weight: float) -> Tensor:
    """Σ ℓ, differentiable by torch."""
    goals = y.to(logits.dtype)
    return functional.binary_cross_entropy_with_logits(
        logits, goals, pos_weight=torch.tensor(weight, device=logits.device), reduction="sum"
    )


def total_loss(logits: Tensor, y: Tensor, weight: float) -> float:
    """Σ ℓ in float64, the same bits on every CPU."""
    goals = y.double()
    return total((weight * goals) * softplus(-logits) + (1 - goals) * softplus(logits))


def summed_gradient(logits: Tensor, y: Tensor, weight: float) -> Tensor:
    """∂Σℓ/∂z = (1 − y)·σ(z) − p·y·σ(−z), the same bits on every CPU."""
    goals = y.double()
    return ((1 - goals) * sigmoid(logits) - (weight * goals) * sigmoid(-logits)).float()
