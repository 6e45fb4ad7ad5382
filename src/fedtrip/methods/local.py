"""Local only: every client trains alone, the lower bound that a federation has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.layout import Layout
from fedtrip.methods.interface import Attaching, CostSymbols, Method, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class LocalOnly(Method):
    """step g from the client's own w_k, which never travels; the server's model stays w⁰

    A client goes on in each of its rounds from where it was, a newcomer from w⁰; the other clients and the rounds in
    between change nothing. The score of the global model is that of w⁰: what counts are the clients' own scores
    (`eval_clients`).
    """

    title = "every client trains alone and sends nothing"
    group = "personal"
    formula = r"""
    step: g \text{, from the client's own } w_k
    server: w = w^0
    """

    def stays(self, layout: Layout) -> frozenset[str]:
        return frozenset(layout.parts)

    def kept(self, server: Server) -> Vectors:
        return {}  # beside the model, which is kept because it stays

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "−2|w|", from_paper=False)
