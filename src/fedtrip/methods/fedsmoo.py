"""FedSMOO (Sun et al., 2023): FedSpeed whose clients agree on the way uphill, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import of_length
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, GradientAt, Local, Memory, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedSmoo(Dynamic):
    """step ∇f(w_k + e) + α(w_k − w + h_k), e = ρ·v/(‖v‖ + 1e-7), v = g − μ_k − s, g = ∇f(w_k); then μ_k ← μ_k + e − s

    Server s ← ρ·M/(‖M‖ + 1e-7), M the uniform mean of μ_k over the clients of the round; h_k, H and w as FedSpeed's.
    μ_k changes in every step and goes on from round to round. Down: w, s. Up: w_k, μ_k. Kept: h_k, as FedDyn's
    λ_k = −α·h_k, and μ_k. All start at 0, so that the first step of all is FedSAM's; ρ = 0 is FedDyn. The statistics of
    BatchNorm see each batch once, at w_k.

    Departs from the paper, as the official code does: there M has also the last e of each client.
    Departs from the official code: that comes back to w_k by subtracting e, and cuts every step to the length 10, which
    the experiment's `clip` does if asked.
    """

    title = "sharpness-aware steps with FedDyn's regulariser and a shared way uphill; plain SGD"
    group = "steps"
    formula = r"""
    step: \nabla f(w_k + e) + \alpha\,(w_k - w + h_k)
    with: e = \rho\,v/(\|v\| + 10^{-7}), \quad v = g - \mu_k - s
    and in every step: \mu_k \leftarrow \mu_k + e - s
    then: h_k \leftarrow h_k + (w_k - w)
    server: H \leftarrow H + \frac{1}{N} \sum_{k \in S} (w_k - w), \quad w \leftarrow \bar w + H, \quad
      s \leftarrow \rho\,\bar\mu/(\|\bar\mu\| + 10^{-7})
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.001, 1.0, "log"), "rho": Range(0.005, 0.5, "log")}
    server_operations = 5
    means = ("w", "mu")

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the gradient is taken"""

    def start(self, w: Tensor) -> Vectors:
        return {**super().start(w), "s": torch.zeros_like(w, dtype=torch.float64)}

    def broadcast(self, server: Server) -> Vectors:
        return {**server.model, "s": server.state["s"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, lambda_k = received["w"], self.lambda_k(received, memory)
        mu_k = torch.zeros_like(w) if memory.is_new else memory["mu"]
        shared = SharedSam(mu_k, received["s"], self.rho, self.pull(w, lambda_k))
        trained = local.train(received, direction=shared)
        keep = {"lambda_k": self.next_lambda(lambda_k, w, trained["w"]), "mu": shared.mu}
        return Reply(upload={**trained, "mu": shared.mu}, keep=keep)

    def kept(self, server: Server) -> Vectors:
        return {**super().kept(server), "mu": server.w}

    def expected(self, server: Server) -> Vectors:
        return {**server.model, "mu": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        return super().aggregate(server, uploads).updated(s=of_length(self.rho, uploads.mean("mu")))

    def attaching(self, cost: CostSymbols) -> Attaching:
        second = cost.K * cost.M * (cost.FP + cost.BP)
        return Attaching(second + 11 * cost.K * cost.w, "K·M(FP+BP) + 11K|w|", "2|w|", from_paper=False)


@dataclass
class SharedSam:
    """h = ∇f(w_k + e) + correction(w_k), e along g − μ − s; μ takes what e differs from s, and goes on."""

    mu: Tensor
    s: Tensor
    rho: float
    correction: Affine

    def at(self, w_k: Tensor, gradient: GradientAt, step: int) -> Tensor:
        e = of_length(self.rho, gradient() - self.mu - self.s)
        self.mu = self.mu + e - self.s
        h = gradient(e)
        self.correction.add_to(h, w_k)
        return h

    def operations(self) -> int:
        return 7 + self.correction.operations()

    def gradients(self) -> int:
        return 2
