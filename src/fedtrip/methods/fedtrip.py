"""FedTrip (Li et al., 2023): near the global model, away from the client's own historical model.

The paper's Algorithm 1; `docs/reading.md` says how its open points were settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, Correction, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedTrip(Method):
    """step g + μ[(w_k − w) + ξ(w_hist − w_k)], ξ = 1/(t − last round of this client); a newcomer's ξ is 0

    The gradient of F_k + (μ/2)(‖w_k − w‖² − ξ‖w_k − w_hist‖²). The client keeps w_k as its w_hist.
    """

    title = "triplet regularisation: near the global model, away from the historical one (the paper's method)"
    group = "paper"
    formula = r"""
    step: g + \mu\,[(w_k - w) + \xi\,(w_{\text{hist}} - w_k)], \quad \xi = 1/\text{gap}
    then: w_{\text{hist}} \leftarrow w_k
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"mu": Range(0.05, 2.5, "log")}

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.4
    """μ, weight of the triplet term (the paper: 0.4, and 1.0 for MLPs)"""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"mu": 1.0} if model == "mlp" else {}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w = received["w"]
        if memory.last_round is None:
            w_hist, xi = w, 0.0  # without a history only the pull towards w is left: FedProx
        else:
            w_hist, xi = memory["w_hist"], self.xi(local.round, gap=local.round - memory.last_round)
        trained = local.train(received, self.triplet(w, w_hist, xi, mu=self.weight(local)))
        return Reply(upload=trained, keep={"w_hist": trained["w"]})

    def kept(self, server: Server) -> Vectors:
        return {"w_hist": server.w}

    def xi(self, t: int, gap: int) -> float:
        """ξ in round t for a client that took part `gap` rounds ago."""
        return 1 / gap

    def weight(self, local: Local) -> float:
        """μ of this round."""
        return self.mu

    def triplet(self, w: Tensor, w_hist: Tensor, xi: float, mu: float) -> Correction:
        """μ[(w_k − w) + ξ(w_hist − w_k)] = a·w_k + c."""
        return Affine(a=mu * (1 - xi), c=(xi * w_hist).sub_(w).mul_(mu))  # in place: one new vector, not three

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(4 * cost.K * cost.w, "4K|w|", "0", from_paper=True)
