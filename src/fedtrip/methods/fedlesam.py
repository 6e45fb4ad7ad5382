"""FedLESAM (Fan et al., 2024): sharpness-aware steps whose way uphill is estimated from the server's own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import train_beside
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedLesam(Method):
    """step ∇f(w_k + e), e = ρ(w_prev − w)/(‖w_prev − w‖ + 1e-7) for the whole round; server w ← uniform mean of w_k

    w_prev is the global model that the client received the last time it took part, and the only thing that it keeps; a
    newcomer has e = 0, and its round is FedAvg's. One gradient for each step, as in FedAvg. The norm is over all
    parameters. Weight decay pulls at w_k, not at w_k + e. The statistics of BatchNorm see each batch at w_k + e.
    Nothing more travels.

    Departs from the official code, which is not the paper's method: it takes single numbers out of the flat vector, by
    the number of the tensor, so that all of a tensor is shifted by one and the same number, divides by the sum of those
    numbers' sizes, and uses the server's last step for all clients, in place of what each one missed.
    """

    title = "sharpness-aware local steps at the price of plain ones: uphill is where the server came from; plain SGD"
    group = "steps"
    formula = r"""
    step: \nabla f(w_k + e)
    with: e = \rho\,(w_{\text{prev}} - w)/(\|w_{\text{prev}} - w\| + 10^{-7})
    then: w_{\text{prev}} \leftarrow w
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"rho": Range(0.005, 0.5, "log")}
    momentum = 0.0
    weighting = "uniform"

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the gradient is taken"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        return Reply(upload=train_beside(self.rho, received, memory, local), keep={"w_prev": received["w"]})

    def kept(self, server: Server) -> Vectors:
        return {"w_prev": server.w}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching((cost.K + 3) * cost.w, "(K+3)|w|", "0", from_paper=False)
