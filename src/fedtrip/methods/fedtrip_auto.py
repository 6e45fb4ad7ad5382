"""FedTrip with our own rules for ξ and μ, from the study of `docs/xi.md`: not the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedtrip import fixed_math
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.interface import Local


@dataclass(frozen=True)
class FedTripAuto(FedTrip):
    """FedTrip's step with ξ = e + (1 − e)/gap, e = exp(−(t − 1)/τ), and μ = push/travel, whatever the local steps

    `travel` is how far a round's local steps go on a constant gradient of length one. With ξ = 1 the term is the
    constant μ(w_hist − w): what it adds in a round, μ·travel times that distance, is in the historical model of the
    next. Where that were more than the distance itself, it could grow from round to round.
    """

    title = "FedTrip with an annealed ξ and a μ that follows the local steps (ours, not the paper's)"
    needs_travel = True
    ranges: ClassVar[Ranges] = {"push": Range(0.25, 1.25), "tau": Range(3.0, 30.0, "log")}

    mu: float = field(default=math.nan, init=False)
    """not an option here: μ follows from `push`"""
    push: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.75
    """how far the term with ξ = 1 pushes a client in a round, in multiples of ‖w_hist − w‖"""
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    """τ, rounds in which ξ falls from 1 towards 1/gap: what is left falls as exp(−(t − 1)/τ)"""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def xi(self, t: int, gap: int) -> float:
        return annealed_xi(t, gap, self.tau)

    def weight(self, local: Local) -> float:
        return self.push / local.travel


def annealed_xi(t: int, gap: int, tau: float) -> float:
    """e + (1 − e)/gap, e = exp(−(t − 1)/τ): from 1 in the first round towards 1/gap."""
    early = fixed_math.exp(-(t - 1) / tau)
    return early + (1 - early) / gap
