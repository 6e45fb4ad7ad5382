"""FedPer (Arivazhagan et al., 2019): the head stays with each client, the body is averaged."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.layout import Layout
from fedtrip.methods._parts import BodyAndHead
from fedtrip.methods.interface import Attaching, CostSymbols


@dataclass(frozen=True)
class FedPer(BodyAndHead):
    """step g on body and head together; server: the body of w ← mean of those of w_k; each head stays with its client

    A newcomer has the initial head. So has the global model, whose score therefore says little; what counts are the
    clients' own scores (`eval_clients`).
    """

    title = "each client has a head of its own on the common body"
    group = "personal"
    formula = r"""
    step: g \text{ on } w_k = (\text{body}_k, \text{head}_k)
    server: \text{body} \leftarrow \overline{\text{body}}
    own: \text{head}_k
    """

    def stays(self, layout: Layout) -> frozenset[str]:
        return frozenset(layout.parts) - self.body_of(layout)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "−2|head|", from_paper=False)
