"""FedLESAM-D (Fan et al., 2024): FedLESAM's gradients with FedDyn's dynamic regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import train_beside
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedLesamD(Dynamic):
    """step ∇f(w_k + e) − λ_k + α(w_k − w), e = ρ(w_prev − w)/(‖w_prev − w‖ + 1e-7); λ_k ← λ_k − α(w_k − w)

    Server h ← h − (α/N)Σ(w_k − w), w ← w̄ − h/α, w̄ the uniform mean of w_k; N counts all clients. w_prev is the global
    model that the client received the last time it took part; a newcomer has e = 0. ρ = 0 is FedDyn. Nothing more
    travels than in FedAvg. Kept: λ_k, w_prev. Weight decay and the regulariser pull at w_k; the statistics of BatchNorm
    see each batch at w_k + e.

    Departs from the official code: see `fedlesam`.
    """

    title = "FedLESAM's gradients with FedDyn's regulariser; plain SGD"
    group = "steps"
    formula = r"""
    step: \nabla f(w_k + e) - \lambda_k + \alpha\,(w_k - w)
    with: e = \rho\,(w_{\text{prev}} - w)/(\|w_{\text{prev}} - w\| + 10^{-7})
    then: \lambda_k \leftarrow \lambda_k - \alpha\,(w_k - w), \quad w_{\text{prev}} \leftarrow w
    server: h \leftarrow h - \frac{\alpha}{N} \sum_{k \in S} (w_k - w), \quad w \leftarrow \bar w - h/\alpha
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.001, 1.0, "log"), "rho": Range(0.005, 0.5, "log")}

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the gradient is taken"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, lambda_k = received["w"], self.lambda_k(received, memory)
        trained = train_beside(self.rho, received, memory, local, self.pull(w, lambda_k))
        keep = {"lambda_k": self.next_lambda(lambda_k, w, trained["w"]), "w_prev": w}
        return Reply(upload=trained, keep=keep)

    def kept(self, server: Server) -> Vectors:
        return {**super().kept(server), "w_prev": server.w}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(4 * cost.K * cost.w + (cost.K + 3) * cost.w, "4K|w| + (K+3)|w|", "0", from_paper=False)
