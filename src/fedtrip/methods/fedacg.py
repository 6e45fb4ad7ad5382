"""FedACG (Kim et al., 2024; first called FedAGM): clients train from where the server's momentum is heading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedAcg(Method):
    """v = w + λm is sent; step g + μ(w_k − v); server m ← λm + mean of (w_k − v), w ← w + m

    The mean is uniform, and w + m is the mean of the w_k. Nothing more travels than in FedAvg: v goes down in place of
    w, and is all that a client knows of the momentum. Nothing is kept. The model that is evaluated is w, not v, and
    BatchNorm's statistics have no momentum: the variance of v might be negative.

    Departs from the official code: its penalty is μ‖w_k − v‖² without the paper's ½, so that its 0.001 is 0.002 here;
    and it adds the momentum to all that a model has, statistics too. The code that was called FedAGM weights by n_k.
    """

    title = "the server's momentum is sent ahead with the model, a proximal term anchors there; plain SGD"
    group = "steps"
    formula = r"""
    sent: v = w + \lambda\,m
    step: g + \mu\,(w_k - v)
    server: m \leftarrow \lambda\,m + \overline{w_k - v}, \quad w \leftarrow w + m
    """
    ranges: ClassVar[Ranges] = {"lam": Choices(0.5, 0.7, 0.85, 0.95), "mu": Range(1e-4, 0.1, "log")}
    momentum = 0.0  # as in the official code: the momentum is the server's
    weighting = "uniform"
    server_operations = 2

    lam: Annotated[float, Field(ge=0, lt=1)] = 0.85
    """λ, the server's momentum"""
    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.001
    """μ, weight of the proximal term (the paper calls it β)"""

    def start(self, w: Tensor) -> Vectors:
        return {"m": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return {**server.model, "w": server.w.double() + self.lam * server.state["m"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        v = received["w"]
        return Reply(upload=local.train(received, Affine(a=self.mu, c=-self.mu * v)))

    def kept(self, server: Server) -> Vectors:
        return {}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        mean = uploads.mean("w")
        return server.updated(w=mean, m=mean - server.w)  # λm + mean − v, as v is w + λm

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(2 * cost.K * cost.w, "2K|w|", "0", from_paper=False)
