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

    ξ begins at 1 and comes down to the paper's 1/gap over the first rounds; without a history it is 0. `travel` is how
    far a round's K local steps go on a constant gradient of length one: ηK, and with momentum β, zero at the start,
    η(K − β(1 − β^K)/(1 − β))/(1 − β).

    With ξ = 1 the term is the constant μ(w_hist − w), which the steps follow μ·travel far. That product, the push,
    decides what the term does; μ alone does not, because travel grows with the samples, the epochs and the rate. The
    push is in the client's historical model of the next round, so above 1 it can grow from round to round; well below 1
    little of the gain is left (`docs/xi.md#how-far-to-push`). So nothing is to be tuned when the model, the samples of
    a client, the epochs or the rate change.

    Departs from the paper: both rules are ours, chosen on MNIST and Fashion-MNIST in the study of `docs/xi.md`, which
    measures them. The paper has ξ = 1/gap and one μ for a model.
    """

    title = "FedTrip with an annealed ξ and a μ that follows the local steps (ours, not the paper's)"
    group = "paper"
    formula = r"""
    step: g + \mu\,[(w_k - w) + \xi\,(w_{\text{hist}} - w_k)]
    with: \xi = e + (1 - e)/\text{gap}, \quad e = \exp(-(t - 1)/\tau)
    and: \mu = \text{push}/\text{travel}
    then: w_{\text{hist}} \leftarrow w_k
    server: w \leftarrow \bar w
    """
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
