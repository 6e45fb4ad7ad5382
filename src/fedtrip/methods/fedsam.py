"""FedSAM (Qu et al., 2022; Caldarola et al., 2022): local steps of sharpness-aware minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import Sam
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedSam(Method):
    """step ∇f(w_k + e), e = ρ·g/(‖g‖ + 1e-7), g = ∇f(w_k) on the same batch; server w ← uniform mean of w_k

    The norm is over all parameters. Both gradients see the same dropout. Weight decay pulls at w_k, not at w_k + e.
    Nothing more travels, and nothing is kept. ρ = 0 is FedAvg with a uniform mean.

    Departs from the official code: that comes back to w_k by subtracting e, which is not w_k in float32, and moves the
    statistics of BatchNorm twice in a step, the second time at w_k + e. Here w_k keeps its bits, and the statistics see
    each batch once, at w_k. It also cuts every step to the length 10, which the experiment's `clip` does if asked.
    """

    title = "sharpness-aware local steps: the gradient a little uphill of the local model; plain SGD"
    group = "steps"
    formula = r"""
    step: \nabla f(w_k + e)
    with: e = \rho\,g/(\|g\| + 10^{-7}), \quad g = \nabla f(w_k)
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"rho": Range(0.005, 0.5, "log")}
    momentum = 0.0
    weighting = "uniform"

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the gradient is taken"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        return Reply(upload=local.train(received, direction=Sam(self.rho)))

    def kept(self, server: Server) -> Vectors:
        return {}

    def attaching(self, cost: CostSymbols) -> Attaching:
        second = cost.K * cost.M * (cost.FP + cost.BP)
        return Attaching(second + 3 * cost.K * cost.w, "K·M(FP+BP) + 3K|w|", "0", from_paper=False)
