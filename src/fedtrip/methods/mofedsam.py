"""MoFedSAM (Qu et al., 2022): FedSAM's steps mixed with the direction in which all clients went in the last round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import Sam
from fedtrip.methods.fedcm import FedCm
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class MoFedSam(FedCm):
    """w_k ← w_k − η[αh + (1−α)s], h = ∇f(w_k + e), e = ρ·g/(‖g‖ + 1e-7), g = ∇f(w_k); server as FedCM's

    It is FedCM with FedSAM's h in place of the gradient: ρ = 0 is FedCM, α = 1 is FedSAM. The server's
    s ← mean of (w − w_k)/(K_k·η), w ← w + η_g·Δ̄. Down: w, s. Up: w_k and one number, K_k·η. Nothing is kept. Weight
    decay, at w_k, belongs to h and is scaled by α like it. The statistics of BatchNorm see each batch once, at w_k.

    Departs from the official code: that takes K of one client for all of them, leaves weight decay unscaled, and comes
    back to w_k by subtracting e. It also cuts every step to the length 10, which the experiment's `clip` does if asked.
    """

    title = "sharpness-aware steps mixed with the last round's direction of all clients; no local momentum"
    group = "steps"
    formula = r"""
    client: w_k \leftarrow w_k - \eta\,[\alpha\,\nabla f(w_k + e) + (1 - \alpha)\,s]
    with: e = \rho\,g/(\|g\| + 10^{-7}), \quad g = \nabla f(w_k)
    server: s \leftarrow \overline{(w - w_k)/(K_k\,\eta)}, \quad w \leftarrow w + \eta_g\,\bar\Delta
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.03, 1.0, "log"), "rho": Range(0.005, 0.5, "log")}

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the gradient is taken"""

    def trained(self, received: Vectors, momentum: Affine, local: Local) -> Vectors:
        return local.train(received, direction=Sam(self.rho, momentum), lr_scale=self.alpha)

    def attaching(self, cost: CostSymbols) -> Attaching:
        second = cost.K * cost.M * (cost.FP + cost.BP)
        return Attaching(second + 5 * cost.K * cost.w, "K·M(FP+BP) + 5K|w|", "|w|", from_paper=False)
