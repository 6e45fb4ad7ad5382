"""FedDyn (Acar et al., 2021): dynamic regularisation aligns the local optima with the global one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Uploads
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class FedDyn(Method):
    """step g − λ_k + α(w_k − w); λ_k ← λ_k − α(w_k − w); server h ← h − (α/N)Σ(w_k − w), w ← mean − h/α

    N counts all clients, S those of the round. Invariant: h = (1/N) Σ_k λ_k.
    """

    title = "dynamic regularisation with a gradient kept by each client; plain SGD"
    momentum = 0.0
    server_operations = 3
    weighting = "uniform"
    totals = ("w",)
    ranges: ClassVar[Ranges] = {"alpha": Range(0.001, 1.0, "log")}

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    """α, weight of the regulariser (the paper: 1 on MNIST)"""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"alpha": 1.0} if dataset == "mnist" else {}

    def start(self, w: Tensor) -> Vectors:
        return {"h": torch.zeros_like(w, dtype=torch.float64)}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w = received["w"]
        lambda_k = torch.zeros_like(w) if memory.is_new else memory["lambda_k"]
        trained = local.train(received, Affine(a=self.alpha, c=axpy(lambda_k.clone(), self.alpha, w).neg_()))
        return Reply(upload=trained, keep={"lambda_k": lambda_k - (trained["w"] - w).mul_(self.alpha)})

    def kept(self, server: Server) -> Vectors:
        return {"lambda_k": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        moved = uploads.total("w") - uploads.count * server.w.double()  # Σ_{k∈S} (w_k − w)
        h = server.state["h"] - (self.alpha / server.clients) * moved
        return server.updated(w=uploads.mean("w") - h / self.alpha, h=h)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(4 * cost.K * cost.w, "4K|w|", "0", from_paper=True)
