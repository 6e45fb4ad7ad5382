"""FedTrip (Li et al., 2023): near the global model, away from the client's own historical model.

The paper's Algorithm 1; `docs/reading.md` says how its open points were settled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.methods.interface import Affine, Attaching, Correction, CostSymbols, Local, Memory, Method, Reply, Vectors

PAPERS_MU, PAPERS_MU_OF_MLP = 0.4, 1.0


@dataclass(frozen=True)
class FedTrip(Method):
    """step g + μ[(w_k − w) + ξ(w_hist − w_k)], the gradient of F_k + (μ/2)(‖w_k − w‖² − ξ‖w_k − w_hist‖²)"""

    title = "triplet regularisation: near the global model, away from the historical one (the paper's method)"

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["auto"] = "auto"
    """μ, weight of the triplet term: a number (the paper: 0.4, and 1.0 for MLPs), or auto, what makes the term push a
    client as far as `reach` says, whatever its number of local steps and their rate"""
    reach: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.75
    """how far the term with μ = auto and ξ = 1 pushes a client in a round, in multiples of ‖w_hist − w‖ (0: the paper's
    μ instead of auto)"""
    xi: Literal["annealed", "inverse-gap", "constant", "gap"] = "annealed"
    """rule for ξ, the gap being t − last round of this client: annealed (from 1 to 1/gap over the first rounds), 1/gap
    (the paper's analysis), the constant `xi_value`, or the gap itself (the paper's text)"""
    xi_value: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """ξ of the rule `constant`"""
    xi_rounds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    """τ of the rule `annealed`: what is left of ξ = 1 falls as exp(−(t − 1)/τ)"""
    penalty: Literal["squared", "norm"] = "squared"
    """squared norms (the paper's Eq. 5), or plain norms, whose gradient has bounded length"""
    first: Literal["prox", "none", "initial"] = "prox"
    """a client without history: FedProx (ξ = 0), no regulariser, or the initial model as history with gap t"""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        mu, reach = options.get("mu", "auto"), options.get("reach", 0)
        if mu != "auto" and reach != 0:
            raise UserError(
                f"method 'fedtrip': option 'reach' is {reach}; accepted with mu={mu}: 0 (it is for mu=auto)"
            )
        if options.get("reach") == 0 or options.get("penalty") == "norm":
            return {"mu": PAPERS_MU_OF_MLP if model == "mlp" else PAPERS_MU}
        return {}

    def __post_init__(self) -> None:
        if self.mu != "auto":
            object.__setattr__(self, "reach", 0.0)  # it has no effect, and equal methods are to be equal
        elif self.reach == 0 or self.penalty == "norm":  # a plain norm's push has one length, whatever the distance
            raise UserError("method 'fedtrip': option 'mu' is 'auto'; accepted with penalty=norm or reach=0: a number")

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w = received["w"]
        if memory.last_round is not None:
            w_hist, xi = memory["w_hist"], self.xi_of(local.round, gap=local.round - memory.last_round)
        elif self.first == "initial":
            w_hist, xi = local.initial, self.xi_of(local.round, gap=local.round)
        else:
            w_hist, xi = w, 0.0

        if memory.is_new and self.first == "none":
            trained = local.train(received)
        else:
            trained = local.train(received, self.triplet(w, w_hist, xi, mu=self.weight(local.travel)))
        return Reply(upload=trained, keep={"w_hist": trained["w"]})

    def xi_of(self, t: int, gap: int) -> float:
        """ξ in round t for a client that took part `gap` rounds ago."""
        if self.xi == "constant":
            return self.xi_value
        if self.xi == "annealed":
            early = math.exp(-(t - 1) / self.xi_rounds)
            return early + (1 - early) / gap
        return 1 / gap if self.xi == "inverse-gap" else float(gap)

    def weight(self, travel: float) -> float:
        """μ: as given, or what moves a client with ξ = 1 by `reach`·‖w_hist − w‖ in its local steps.

        With ξ = 1 the term is the constant μ(w_hist − w). What it adds in a round, μ·travel times that distance, is in
        the historical model of the next: where it is more than the distance itself, it can grow from round to round.
        """
        return self.reach / travel if self.mu == "auto" else self.mu

    def triplet(self, w: Tensor, w_hist: Tensor, xi: float, mu: float) -> Correction:
        """μ[(w_k − w) + ξ(w_hist − w_k)] = a·w_k + c, or its form with plain norms."""
        if self.penalty == "norm":
            return UnitTriplet(mu, w, w_hist, xi)
        return Affine(a=mu * (1 - xi), c=(xi * w_hist).sub_(w).mul_(mu))  # in place: one new vector, not three

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(4 * cost.K * cost.w, "4K|w|", "0", from_paper=True)


@dataclass(frozen=True)
class UnitTriplet:
    """(μ/2)[(w_k − w)/‖w_k − w‖ − ξ(w_k − w_hist)/‖w_k − w_hist‖]; a term is zero where its norm is zero."""

    mu: float
    w: Tensor
    w_hist: Tensor
    xi: float

    def add_to(self, h: Tensor, w_k: Tensor) -> None:
        for anchor, weight in ((self.w, self.mu / 2), (self.w_hist, -self.xi * self.mu / 2)):
            apart = w_k - anchor
            norm = float(torch.linalg.vector_norm(apart))
            if norm > 0 and weight != 0:
                h.add_(apart, alpha=weight / norm)

    def operations(self) -> int:
        return 6  # for each of the two anchors: a difference, its norm, its addition
