"""FedDANE (Li et al., 2019): a federated Newton-type method; gradients are exchanged before the models are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedDane(Method):
    """exchange 1: g_t ← mean of ∇F_k(w); exchange 2, the same clients: step g + (g_t − ∇F_k(w)) + μ(w_k − w)

    Between the exchanges a client holds w and ∇F_k(w); after the round nothing. All means are weighted by n_k.
    """

    title = "FedProx with a gradient correction, in two exchanges a round"
    group = "paper"
    formula = r"""
    exchange 1: g_t \leftarrow \overline{\nabla F_k(w)}
    exchange 2, step: g + (g_t - \nabla F_k(w)) + \mu\,(w_k - w)
    server: w \leftarrow \bar w
    """
    exchanges = 2
    means = ("gradient", "w")
    ranges: ClassVar[Ranges] = {"mu": Range(0.001, 1.0, "log")}

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """μ, weight of the proximal term"""

    def start(self, w: Tensor) -> Vectors:
        return {"g_t": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return server.model if server.exchange == 0 else {"g_t": server.state["g_t"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        if local.exchange == 0:
            gradient = local.gradient(received)
            return Reply(upload={"gradient": gradient}, keep={**received, "gradient": gradient})
        w, gradient = memory["w"], memory["gradient"]
        trained = local.train(memory.vectors, Affine(a=self.mu, c=(received["g_t"] - gradient) - self.mu * w))
        return Reply(upload=trained)

    def kept(self, server: Server) -> Vectors:
        return {}

    def expected(self, server: Server) -> Vectors:
        return {"gradient": server.w} if server.exchange == 0 else server.model

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        if server.exchange == 0:
            return server.updated(g_t=uploads.mean("gradient"))
        return server.updated(w=uploads.mean("w"))

    def attaching(self, cost: CostSymbols) -> Attaching:
        flops = 4 * cost.K * cost.w + cost.n * (cost.FP + cost.BP)
        return Attaching(flops, "4K|w| + n(FP+BP)", "2|w|", from_paper=False)
