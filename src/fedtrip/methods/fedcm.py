"""FedCM (Xu et al., 2021): local steps mixed with the direction in which all clients went in the last round."""

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
class FedCm(Method):
    """w_k ← w_k − η[αg + (1−α)s], s frozen; server s ← mean of (w − w_k)/(K_k·η), w ← w + η_g·Δ̄

    Δ̄ is the mean of w_k − w; both means are uniform. s is the mean of the *mixed* steps, so that it is divided by K_k·η
    and not by α·K_k·η: s⁺ = (1−α)s + α·(mean of all gradients g). η is the rate of the round that moved. Down: w, s.
    Up: w_k and one number, K_k·η (with local momentum how far such steps go on a constant gradient of one). Nothing is
    kept. A client without a step has no part in s. Weight decay belongs to g, and is scaled by α like it.

    Departs from the paper: its server steps to w − η_g·s, which is the same when all K_k are equal and its η_g is K·η.
    Departs from FL-Simulator's code: that takes K of the first client, not rounded up, for all of them, and leaves
    weight decay unscaled.
    """

    title = "local steps mixed with the last round's direction of all clients; no local momentum"
    group = "steps"
    formula = r"""
    client: w_k \leftarrow w_k - \eta\,[\alpha\,g + (1 - \alpha)\,s]
    server: s \leftarrow \overline{(w - w_k)/(K_k\,\eta)}, \quad w \leftarrow w + \eta_g\,\bar\Delta
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.03, 1.0, "log")}
    momentum = 0.0
    weighting = "uniform"
    server_operations = 2
    server_operations_each = 2
    needs_each = True
    needs_travel = True
    optimizers = ("sgd",)  # its step is αg + (1−α)s and nothing else

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.1
    """α, share of the gradient in a step; the rest is s"""
    eta_g: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """η_g, the server's learning rate"""

    def start(self, w: Tensor) -> Vectors:
        return {"s": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return {**server.model, "s": server.state["s"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        momentum = Affine(a=0.0, c=(1 - self.alpha) / self.alpha * received["s"])  # α(g + (1−α)/α·s)
        trained = self.trained(received, momentum, local)
        return Reply(upload={**trained, "travel": torch.tensor([local.travel])})

    def trained(self, received: Vectors, momentum: Affine, local: Local) -> Vectors:
        """The training with α(h + momentum) as its step; h is the gradient, and something else in MoFedSAM."""
        return local.train(received, momentum, lr_scale=self.alpha)

    def kept(self, server: Server) -> Vectors:
        return {}

    def expected(self, server: Server) -> Vectors:
        return {**server.model, "travel": torch.zeros(1)}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        w, mean = server.w.double(), uploads.mean("w")
        went = [upload for upload in uploads.each() if float(upload["travel"]) > 0]
        s = torch.zeros_like(w) if went else server.state["s"]
        for upload in went:
            s += (w - upload["w"]) / (float(upload["travel"]) * len(went))
        return server.updated(w=mean + (self.eta_g - 1) * (mean - w), s=s)  # the mean's own bits where η_g is 1

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(2 * cost.K * cost.w, "2K|w|", "|w|", from_paper=False)
