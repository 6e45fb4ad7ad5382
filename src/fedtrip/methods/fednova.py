"""FedNova (Wang et al., 2020): updates normalised by how far their steps go, so that longer training counts no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field

from fedtrip.errors import UserError
from fedtrip.methods._ranges import Choices, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedNova(Method):
    """step g + μ(w_k − w); d_k = (w − w_k)/τ_k; server w ← w − τ_eff·Σp_k·d_k, τ_eff = Σp_k·τ_k, p_k = n_k/Σn

    τ_k is how far the client's steps go on a constant gradient of length one: η·K_k with plain SGD, more with momentum
    β, less with the pull μ; in general −x after K_k times m ← βm + 1 + μx, x ← x − ηm from 0. The client sends it, one
    number, beside w_k. Weight decay stays out of it, as in the official code, and buffers are averaged as they are. A
    client without a step has no direction, and so no part in the sums.

    Departs from the official code: with momentum and μ together that mixes the two recursions, and its τ_k is not how
    far such steps go. With μ it takes τ_eff = Σp_k·η·K_k, which the option `tau_eff` does. Its server momentum is the
    server optimizer `momentum`.
    """

    title = "normalised averaging: clients that take more steps do not pull the model their way"
    group = "server"
    formula = r"""
    step: g + \mu\,(w_k - w)
    then: d_k = (w - w_k)/\tau_k
    server: w \leftarrow w - \tau_{\text{eff}} \sum_k p_k\,d_k, \quad \tau_{\text{eff}} = \sum_k p_k\,\tau_k
    """
    needs_each = True
    needs_travel = True
    server_operations = 1
    server_operations_each = 2
    ranges: ClassVar[Ranges] = {"mu": Choices(0.0, 0.001, 0.01, 0.1)}

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """μ, weight of a proximal term as in FedProx"""
    tau_eff: Literal["travel", "steps"] = "travel"
    """what τ_eff is the mean of: τ_k, or η·K_k, as in the official code with μ"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w = received["w"]
        self._check_rate(local.lr)
        upload = {"tau": torch.tensor([local.travel_with(self.mu)])}
        if self.tau_eff == "steps":
            upload["steps"] = torch.tensor([local.lr * local.steps])
        trained = local.train(received, Affine(a=self.mu, c=-self.mu * w) if self.mu else None)
        return Reply(upload={**trained, **upload})

    def _check_rate(self, eta: float) -> None:
        """Refuse a pull that by itself throws the client further than it came: its steps lead nowhere."""
        if self.mu * eta >= 2:
            raise UserError(
                f"method 'fednova': option 'mu' is {self.mu}, whose pull diverges in steps of the local rate {eta}; "
                f"accepted: less than {2 / eta:g}"
            )

    def kept(self, server: Server) -> Vectors:
        return {}

    def expected(self, server: Server) -> Vectors:
        return {**server.model, "tau": torch.zeros(1), **({"steps": torch.zeros(1)} if self.tau_eff == "steps" else {})}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        went = [upload for upload in uploads.each() if float(upload["tau"]) > 0]
        if not went:
            return server
        w, weights = server.w.double(), self.weights(went)
        whole, d, tau_eff = sum(weights), torch.zeros_like(w), 0.0
        for weight, upload in zip(weights, went, strict=True):
            p_k = weight / whole
            d += (w - upload["w"]) * (p_k / float(upload["tau"]))
            tau_eff += p_k * float(upload["tau" if self.tau_eff == "travel" else "steps"])
        return server.updated(w=w - tau_eff * d)

    def attaching(self, cost: CostSymbols) -> Attaching:
        if self.mu == 0:
            return Attaching(0.0, "0", "0", from_paper=False)
        return Attaching(2 * cost.K * cost.w, "2K|w|", "0", from_paper=False)
