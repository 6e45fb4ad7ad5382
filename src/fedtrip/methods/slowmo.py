"""SlowMo (Wang et al., 2019): momentum on the server, over the averaged local updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Method, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class SlowMo(Method):
    """step g, plain SGD; server u ← βu + (w − w̄)/η, w ← w − αηu with w̄ the mean of the uploads

    u is in the scale of gradients: the local rate η divides what goes into it and multiplies what comes out, so that a
    change of η over the rounds does not change what u remembers. To rounding FedAvgM while η is constant.
    """

    title = "slow momentum on the server; clients train with plain SGD"
    group = "paper"
    formula = r"""
    step: g
    server: u \leftarrow \beta u + (w - \bar w)/\eta, \quad w \leftarrow w - \alpha\,\eta\,u
    """
    momentum = 0.0
    server_operations = 3
    ranges: ClassVar[Ranges] = {"alpha": Range(0.3, 3.0, "log"), "beta": Choices(0.5, 0.7, 0.9, 0.95)}

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """α, the slow learning rate"""
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """β, the slow momentum (not in the paper: 0.9 comes nearest)"""

    def start(self, w: Tensor) -> Vectors:
        return {"u": torch.zeros_like(w, dtype=torch.float64)}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        w, eta = server.w.double(), server.lr
        u = self.beta * server.state["u"] + (w - uploads.mean("w")) / eta
        return server.updated(w=w - self.alpha * eta * u, u=u)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "0", from_paper=False)  # its work is on the server
