"""The core of SCAFFOLD, which FedDC and FedLESAM-S share: control variates c of the server and c_k of each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedtrip.methods.interface import Local, Memory, Method, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class ControlVariates(Method):
    """step c − c_k beside the gradient; c_k⁺ = c_k − c + (w − w_k)/(Kη); server c ← c + (1/N)Σ(c_k⁺ − c_k)

    Down: w, c. Up: w_k, c_k⁺ − c_k. Kept: c_k. Invariant: c = (1/N) Σ_k c_k.
    """

    momentum = 0.0
    weighting = "uniform"
    totals: ClassVar[tuple[str, ...]] = ("delta_c",)
    optimizers = ("sgd",)  # K steps of length η are what (w − w_k)/(Kη) takes for granted

    def start(self, w: Tensor) -> Vectors:
        return {**super().start(w), "c": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return {**super().broadcast(server), "c": server.state["c"]}

    def c_k(self, received: Vectors, memory: Memory) -> Tensor:
        """c_k as the client kept it; a newcomer's is 0."""
        return torch.zeros_like(received["w"]) if memory.is_new else memory["c_k"]

    def next_c_k(self, c_k: Tensor, received: Vectors, w_k: Tensor, local: Local) -> Tensor:
        """c_k⁺ = c_k − c + (w − w_k)/(Kη), from the way that the training went."""
        return c_k - received["c"] + (received["w"] - w_k) / (local.steps * local.lr)

    def kept(self, server: Server) -> Vectors:
        return {"c_k": server.w}

    def expected(self, server: Server) -> Vectors:
        return {**super().expected(server), "delta_c": server.w}

    def next_c(self, server: Server, uploads: Uploads) -> Tensor:
        """c after the round's changes, a mean over all N clients."""
        return server.state["c"] + uploads.total("delta_c") / server.clients
