"""SCAFFOLD (Karimireddy et al., 2020): control variates correct the drift of local steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Scaffold(Method):
    """step g − c_k + c; c_k⁺ = ∇F_k(w) (I) or c_k − c + (w − w_k)/(Kη) (II); server c ← c + (1/N)Σ(c_k⁺ − c_k)"""

    title = "control variates of server and clients correct the drift; plain SGD"
    momentum = 0.0
    weighting = "uniform"
    server_operations = 3
    totals = ("delta_c",)
    optimizers = ("sgd",)  # K steps of length η are what (w − w_k)/(Kη) takes for granted
    ranges: ClassVar[Ranges] = {"eta_g": Range(0.3, 3.0, "log")}

    option: Literal["I", "II"] = "II"
    """how a client renews c_k: I, the gradient on all its data; II, from the way it went"""
    eta_g: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """η_g, the server's learning rate"""

    def start(self, w: Tensor) -> Vectors:
        return {"c": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return {**server.model, "c": server.state["c"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, c = received["w"], received["c"]
        c_k = torch.zeros_like(w) if memory.is_new else memory["c_k"]
        gradient = local.gradient(received) if self.option == "I" else None
        trained = local.train(received, Affine(a=0.0, c=c - c_k))
        renewed = gradient if gradient is not None else c_k - c + (w - trained["w"]) / (local.steps * local.lr)
        return Reply(upload={**trained, "delta_c": renewed - c_k}, keep={"c_k": renewed})

    def kept(self, server: Server) -> Vectors:
        return {"c_k": server.w}

    def expected(self, server: Server) -> Vectors:
        return {**server.model, "delta_c": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        w = server.w.double()
        w = w + self.eta_g * (uploads.mean("w") - w)
        c = server.state["c"] + uploads.total("delta_c") / server.clients
        return server.updated(w=w, c=c)

    def attaching(self, cost: CostSymbols) -> Attaching:
        corrections = 2 * (cost.K + 1) * cost.w
        if self.option == "II":
            return Attaching(corrections, "2(K+1)|w|", "2|w|", from_paper=False)
        full_gradient = cost.n * (cost.FP + cost.BP)
        return Attaching(corrections + full_gradient, "2(K+1)|w| + n(FP+BP)", "2|w|", from_paper=True)
