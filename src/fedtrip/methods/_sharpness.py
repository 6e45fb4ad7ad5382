"""What the sharpness-aware methods share: gradients that are taken beside w_k, and where that is."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.methods.interface import Correction, GradientAt, Local, Memory
from fedtrip.vectors import Vectors, norm

TINY = 1e-7
"""What keeps a direction of length zero from a division by zero."""


def of_length(rho: float, v: Tensor) -> Tensor:
    """ρ·v/(‖v‖ + 1e-7), the norm over all of v: of length ρ, and 0 where v is 0."""
    return v * (rho / (norm(v) + TINY))


@dataclass(frozen=True)
class Sam:
    """h = (1−γ)g + γ·∇f(w_k + e), e = ρ·g/(‖g‖ + 1e-7), g = ∇f(w_k) on the same batch; and a correction at w_k."""

    rho: float
    correction: Correction | None = None
    gamma: float = 1.0

    def at(self, w_k: Tensor, gradient: GradientAt, step: int) -> Tensor:
        g = gradient()
        h = gradient(of_length(self.rho, g))
        if self.gamma != 1:
            h = (1 - self.gamma) * g + self.gamma * h
        return corrected(h, w_k, self.correction)

    def operations(self) -> int:
        return 3 + 2 * (self.gamma != 1) + operations_of(self.correction)

    def gradients(self) -> int:
        return 2


@dataclass(frozen=True)
class Beside:
    """h = ∇f(w_k + e) with one e for all steps; and a correction at w_k."""

    e: Tensor
    correction: Correction | None = None

    def at(self, w_k: Tensor, gradient: GradientAt, step: int) -> Tensor:
        return corrected(gradient(self.e), w_k, self.correction)

    def operations(self) -> int:
        return 1 + operations_of(self.correction)

    def gradients(self) -> int:
        return 1


def train_beside(
    rho: float, received: Vectors, memory: Memory, local: Local, correction: Correction | None = None
) -> Vectors:
    """FedLESAM's training: gradients at w_k + e, e = ρ(w_prev − w)/(‖w_prev − w‖ + 1e-7); a newcomer's at w_k.

    w_prev is the global model that the client received the last time: what the server has gone since then is the way
    down that all clients found, and e the way back up.
    """
    if memory.is_new:
        return local.train(received, correction)
    e = of_length(rho, memory["w_prev"] - received["w"])
    return local.train(received, direction=Beside(e, correction))


def corrected(h: Tensor, w_k: Tensor, correction: Correction | None) -> Tensor:
    """h + correction(w_k), in place."""
    if correction is not None:
        correction.add_to(h, w_k)
    return h


def operations_of(correction: Correction | None) -> int:
    """What a correction costs for each parameter and step."""
    return 0 if correction is None else correction.operations()
