"""The rules of our study of ξ (`docs/xi.md`) that are no methods of the toolkit: named like anybody's own.

An experiment names them as `fedtrip.paper.study_rules:AnnealedXi`. Their μ is FedTrip's: the paper's, or a given one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor

from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.fedtrip_auto import annealed_xi
from fedtrip.methods.interface import Correction
from fedtrip.vectors import axpy, norm


@dataclass(frozen=True)
class AnnealedXi(FedTrip):
    """FedTrip's step with ξ = e + (1 − e)/gap, e = exp(−(t − 1)/τ)"""

    title = "FedTrip with an annealed ξ and a given μ (a rule of our study)"

    tau: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    """τ, rounds in which ξ falls from 1 towards 1/gap"""

    def xi(self, t: int, gap: int) -> float:
        return annealed_xi(t, gap, self.tau)


@dataclass(frozen=True)
class ConstantXi(FedTrip):
    """FedTrip's step with one ξ for every client that has a history"""

    title = "FedTrip with a constant ξ (a rule of our study)"

    value: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """ξ"""

    def xi(self, t: int, gap: int) -> float:
        del t, gap
        return self.value


@dataclass(frozen=True)
class GapXi(FedTrip):
    """FedTrip's step with ξ = gap, as the paper's text has it: the objective is unbounded below where ξ > 1"""

    title = "FedTrip with the gap itself as ξ (the paper's text; a rule of our study)"

    def xi(self, t: int, gap: int) -> float:
        del t
        return float(gap)


@dataclass(frozen=True)
class InverseGapNorm(FedTrip):
    """step g + (μ/2)[(w_k − w)/‖w_k − w‖ − ξ(w_k − w_hist)/‖w_k − w_hist‖], ξ = 1/gap: plain norms, not squared ones"""

    title = "FedTrip with plain norms, whose gradients have bounded length (a rule of our study)"

    def triplet(self, w: Tensor, w_hist: Tensor, xi: float, mu: float) -> Correction:
        return UnitTriplet(mu, w, w_hist, xi)


@dataclass(frozen=True)
class GapNorm(InverseGapNorm):
    """The step with plain norms, ξ = gap: the paper's text, and stable"""

    title = "FedTrip with plain norms and the gap itself as ξ (a rule of our study)"

    def xi(self, t: int, gap: int) -> float:
        del t
        return float(gap)


@dataclass(frozen=True)
class UnitTriplet:
    """(μ/2)[(w_k − w)/‖w_k − w‖ − ξ(w_k − w_hist)/‖w_k − w_hist‖]; a term is zero where its norm is zero."""

    mu: float
    w: Tensor
    w_hist: Tensor
    xi: float

    def add_to(self, h: Tensor, w_k: Tensor) -> None:
        """Add the term at w_k to the gradient h."""
        for anchor, weight in ((self.w, self.mu / 2), (self.w_hist, -self.xi * self.mu / 2)):
            apart = w_k - anchor
            length = norm(apart)
            if length > 0 and weight != 0:
                axpy(h, weight / length, apart)

    def operations(self) -> int:
        """Operations a parameter of one step: for each anchor a difference, its norm, its addition."""
        return 6
