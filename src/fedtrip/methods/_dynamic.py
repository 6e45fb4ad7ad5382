"""The core of FedDyn, which FedDC, FedSpeed, FedSMOO and FedLESAM-D share: a gradient that each client keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods.interface import Affine, Memory, Method, Server, Uploads
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class Dynamic(Method):
    """step −λ_k + α(w_k − w) beside the gradient; λ_k ← λ_k − α(w_k − w); server h ← h − (α/N)Σ(w_k − w), w ← w̄ − h/α

    N counts all clients, the sum runs over those of the round. Invariant: h = (1/N) Σ_k λ_k. Other papers write
    h_k = −λ_k/α and H = −h/α: the step is α(w_k − w + h_k), h_k ← h_k + (w_k − w), H ← H + (1/N)Σ(w_k − w), w ← w̄ + H.
    """

    momentum = 0.0
    server_operations = 3
    weighting = "uniform"
    totals: ClassVar[tuple[str, ...]] = ("w",)

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    """α, weight of the regulariser"""

    def start(self, w: Tensor) -> Vectors:
        return {**super().start(w), "h": torch.zeros_like(w, dtype=torch.float64)}

    def lambda_k(self, received: Vectors, memory: Memory) -> Tensor:
        """λ_k as the client kept it; a newcomer's is 0."""
        return torch.zeros_like(received["w"]) if memory.is_new else memory["lambda_k"]

    def pull(self, w: Tensor, lambda_k: Tensor) -> Affine:
        """−λ_k + α(w_k − w) = a·w_k + c."""
        return Affine(a=self.alpha, c=axpy(lambda_k.clone(), self.alpha, w).neg_())

    def next_lambda(self, lambda_k: Tensor, w: Tensor, w_k: Tensor) -> Tensor:
        """λ_k after a training that went from w to w_k."""
        return lambda_k - (w_k - w).mul_(self.alpha)

    def kept(self, server: Server) -> Vectors:
        return {"lambda_k": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        moved = uploads.total("w") - uploads.count * server.w.double()  # Σ_{k∈S} (w_k − w)
        h = server.state["h"] - (self.alpha / server.clients) * moved
        return server.updated(w=uploads.mean("w") - h / self.alpha, h=h)
