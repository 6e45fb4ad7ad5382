"""FedExP (Jhunjhunwala et al., 2023): the server steps the further, the more the clients' updates point apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Method, Server, Uploads
from fedtrip.vectors import Vectors, total


@dataclass(frozen=True)
class FedExp(Method):
    """step g; server η_g = max(1, Σp_k‖Δ_k‖²/(2(‖Δ̄‖² + ε_t))), w ← w + η_g·Δ̄; ε_t = ε·(η_t/η_1)²

    Δ_k = w_k − w, Δ̄ their mean with p_k = n_k/Σn. Differences shrink with the rate η, their squares with its square: so
    does ε, and the server keeps η_1, the rate of its first round. Where all Δ_k agree, or one client came, η_g is 1.

    Departs from the official code: that evaluates the mean of the last two models, since η_g goes up and down from
    round to round; here the model that is sent is the one that is evaluated. It writes |S|·ε for ε: the option
    `eps_each` does that.
    """

    title = "a server step that is extrapolated where the clients' updates point apart"
    group = "server"
    formula = r"""
    step: g
    server: w \leftarrow w + \eta_g\,\bar\Delta
    with: \eta_g = \max\left(1, \frac{\sum_k p_k \lVert\Delta_k\rVert^2}
        {2\,(\lVert\bar\Delta\rVert^2 + \varepsilon_t)}\right), \quad \varepsilon_t = \varepsilon\,(\eta_t/\eta_1)^2
    """
    needs_each = True
    server_operations = 3
    server_operations_each = 2
    ranges: ClassVar[Ranges] = {"eps": Range(1e-4, 0.1, "log")}

    eps: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-3
    """ε, which bounds the step where the updates cancel (the official code: 0.1 on EMNIST)"""
    eps_each: bool = False
    """whether ε counts once for each client of the round, |S|·ε, as in the official code"""

    def start(self, w: Tensor) -> Vectors:
        return {"eta_1": torch.zeros(1, dtype=torch.float64)}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        w = server.w.double()
        mean = uploads.mean("w") - w
        weights = self.weights(uploads.each())
        squares = (weight * _square(upload["w"] - w) for weight, upload in zip(weights, uploads.each(), strict=True))
        eta_1 = float(server.state["eta_1"]) or server.lr
        ratio = self._ratio(sum(squares) / sum(weights), _square(mean), self._eps(server.lr, eta_1, uploads.count))
        eta_g = max(1.0, ratio)
        return server.updated(w=w + eta_g * mean, eta_1=torch.tensor([eta_1], dtype=torch.float64))

    def _eps(self, eta: float, eta_1: float, clients: int) -> float:
        """ε of this round."""
        decay = eta / eta_1 if eta_1 else 1.0
        return self.eps * decay * decay * (clients if self.eps_each else 1)

    @staticmethod
    def _ratio(square_of_each: float, square_of_mean: float, eps: float) -> float:
        """Σp_k‖Δ_k‖²/(2(‖Δ̄‖² + ε)); without a way to go there is nothing to extrapolate."""
        return square_of_each / (2 * (square_of_mean + eps)) if square_of_mean > 0 else 1.0

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "0", from_paper=False)  # its work is on the server


def _square(x: Tensor) -> float:
    """‖x‖² of a float64 vector, in a fixed order."""
    return total(x * x)
