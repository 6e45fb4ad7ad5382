"""FedProx (Li et al., 2020): a proximal pull towards the global model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedProx(Method):
    """step g + μ(w_k − w), the gradient of F_k + (μ/2)‖w_k − w‖²

    With μ = 0 it is FedAvg, to the bit.

    Departs from the paper: there clients are drawn with probability proportional to n_k and averaged uniformly; here
    they are drawn uniformly and weighted by n_k, as in FedAvg. With equal n_k, as in the FedTrip paper, the weights are
    the same.
    """

    title = "a proximal term keeps the local model near the global one"
    group = "paper"
    formula = r"""
    step: g + \mu\,(w_k - w)
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"mu": Range(0.001, 1.0, "log")}

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """μ, weight of the proximal term"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w = received["w"]
        return Reply(upload=local.train(received, Affine(a=self.mu, c=-self.mu * w)))

    def kept(self, server: Server) -> Vectors:
        return {}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(2 * cost.K * cost.w, "2K|w|", "0", from_paper=True)
