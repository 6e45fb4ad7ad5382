"""Cross entropy with class weights w, label smoothing ε and Lin et al.'s focal factor:

    ℓ(z, y) = −Σ_c a_c·(1 − p_c)^γ·log p_c,   p = softmax(z),   a_c = w_c·((1 − ε)·[c = y] + ε/C)

With γ = 0 it is torch's `cross_entropy` with `weight` and `label_smoothing`; with ε = 0 the focal loss.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedtrip import fixed_math
from fedtrip.vectors import log_softmax_rows, row_dots, total


def coefficients(y: Tensor, classes: int, weights: Tensor | None, smoothing: float) -> Tensor:
    """a_c of every sample, in float64 on the CPU: not every device has such numbers."""
    a = torch.full((len(y), classes), smoothing / classes, dtype=torch.float64)
    a.scatter_(1, y.cpu()[:, None], (1 - smoothing) + smoothing / classes)
    return a if weights is None else a * weights


def summed_loss(outputs: Tensor, a: Tensor, gamma: float) -> Tensor:
    """Σ ℓ, differentiable by torch."""
    log_p = functional.log_softmax(outputs, 1)
    terms = a.to(outputs.dtype).to(outputs.device) * log_p
    if gamma:
        # where p rounds to 1 nothing is left of the factor, and its derivative would not be finite
        terms = terms * (-torch.expm1(log_p)).clamp(min=torch.finfo(outputs.dtype).eps) ** gamma
    return -terms.sum()


def total_loss(outputs: Tensor, a: Tensor, gamma: float) -> float:
    """Σ ℓ in float64, the same bits on every CPU."""
    log_p = log_softmax_rows(outputs.contiguous())
    return -total(a * _focal_factor(_exp(log_p), gamma) * log_p)


def summed_gradient(outputs: Tensor, a: Tensor, gamma: float) -> Tensor:
    """∂Σℓ/∂z_j = u_j − p_j·Σ_c u_c, u_c = a_c·[γ·p_c·(1 − p_c)^γ·log p_c/(1 − p_c) − (1 − p_c)^γ].

    The same bits on every CPU. log p/(1 − p) is −1 at p = 1.
    """
    log_p = log_softmax_rows(outputs.contiguous())
    p = _exp(log_p)
    factor = _focal_factor(p, gamma)
    ratio = torch.where(p < 1, log_p / (1 - p), -1.0)
    u = a * (gamma * p * factor * ratio - factor)
    return (u - p * row_dots(u, torch.ones_like(u))[:, None]).float()


def _focal_factor(p: Tensor, gamma: float) -> Tensor:
    """(1 − p)^γ."""
    if not gamma:
        return torch.ones_like(p)
    return torch.from_numpy(fixed_math.exp(gamma * fixed_math.log((1 - p).clamp(min=0).numpy())))


def _exp(x: Tensor) -> Tensor:
    return torch.from_numpy(fixed_math.exp(x.numpy()))
