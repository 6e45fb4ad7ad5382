"""MimeLite (Karimireddy et al., 2020): local steps with the server's momentum, frozen for the round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Choices, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class MimeLite(Method):
    """w_k ← w_k − η[(1−β)g + βs], s frozen; server w ← mean of w_k, s ← (1−β)·mean ∇F_k(w) + βs

    s is frozen for the round. A client sends the gradient on all its data at w beside its trained model. With β = 0 it
    is FedAvg with plain SGD, to the bit.

    Departs from the paper: there both means are uniform over the clients of the round; here they are weighted by n_k,
    as in FedAvg. With equal n_k the weights are the same.
    """

    title = "clients step with the server's momentum, renewed from full-batch gradients; no local momentum"
    group = "paper"
    formula = r"""
    client: w_k \leftarrow w_k - \eta\,[(1 - \beta)\,g + \beta\,s]
    server: w \leftarrow \bar w, \quad s \leftarrow (1 - \beta)\,\overline{\nabla F_k(w)} + \beta\,s
    """
    momentum = 0.0
    server_operations = 2
    means = ("w", "gradient")
    optimizers = ("sgd",)  # its step is (1−β)g + βs and nothing else
    ranges: ClassVar[Ranges] = {"beta": Choices(0.5, 0.9, 0.99)}

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """β, the server's momentum"""

    def start(self, w: Tensor) -> Vectors:
        return {"s": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return {**server.model, "s": server.state["s"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        gradient = local.gradient(received)
        momentum = Affine(a=0.0, c=self.beta / (1 - self.beta) * received["s"])  # (1−β)(g + β/(1−β)·s)
        trained = local.train(received, momentum, lr_scale=1 - self.beta)
        return Reply(upload={**trained, "gradient": gradient})

    def kept(self, server: Server) -> Vectors:
        return {}

    def expected(self, server: Server) -> Vectors:
        return {**server.model, "gradient": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        s = (1 - self.beta) * uploads.mean("gradient") + self.beta * server.state["s"]
        return server.updated(w=uploads.mean("w"), s=s)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(cost.n * (cost.FP + cost.BP), "n(FP+BP)", "2|w|", from_paper=True)
