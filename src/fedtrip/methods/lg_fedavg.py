"""LG-FedAvg (Liang et al., 2020): local representations, a global head."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.layout import Layout
from fedtrip.methods._parts import BodyAndHead
from fedtrip.methods.interface import Attaching, CostSymbols


@dataclass(frozen=True)
class LgFedAvg(BodyAndHead):
    """step g on body and head together; server: the head of w ← uniform mean of those of w_k; each body stays

    A newcomer has the initial body. So has the global model, whose score therefore says little; what counts are the
    clients' own scores (`eval_clients`).

    Departs from the official code: that starts from a model which FedAvg has trained, and demands one; here it starts
    from the experiment's model, which may be one that FedAvg has trained. The code reports each client's best
    round by its test accuracy, which is too good; here it is the last.
    """

    title = "each client has a body of its own below the common head"
    group = "personal"
    formula = r"""
    step: g \text{ on } w_k = (\text{body}_k, \text{head}_k)
    server: \text{head} \leftarrow \overline{\text{head}}
    own: \text{body}_k
    """
    weighting = "uniform"

    def stays(self, layout: Layout) -> frozenset[str]:
        return self.body_of(layout)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "−2|body|", from_paper=False)
