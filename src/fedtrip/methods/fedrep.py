"""FedRep (Collins et al., 2021): each round first a head for the body, then a body for the heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.layout import Layout
from fedtrip.methods._parts import BodyAndHead
from fedtrip.methods._ranges import Choices, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Reply
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedRep(BodyAndHead):
    """E_h epochs on the head, body frozen; then E on the body, head frozen; server: body ← mean; each head stays

    E is the experiment's `local_epochs`, 1 in the official code. A frozen part keeps its bits: neither weight decay nor
    momentum moves it. BatchNorm's statistics move in both phases. A newcomer has the initial head, and so has the
    global model; what counts are the clients' own scores (`eval_clients`).

    Departs from the official code: each phase goes through the samples in an order of its own and begins with a
    momentum of zero; there one momentum goes through both.
    """

    title = "each client fits its own head to the common body, then the body to its head"
    group = "personal"
    formula = r"""
    first: E_h \text{ epochs of steps } g \text{ on } \text{head}_k \text{, body frozen}
    then: E \text{ epochs of steps } g \text{ on } \text{body}_k \text{, head frozen}
    server: \text{body} \leftarrow \overline{\text{body}}
    own: \text{head}_k
    """
    momentum = 0.5
    trainings = 2
    ranges: ClassVar[Ranges] = {"head_epochs": Choices(1, 5, 10)}

    head_epochs: Annotated[int, Field(ge=0)] = 10
    """E_h, epochs on the head in each round"""

    def stays(self, layout: Layout) -> frozenset[str]:
        return frozenset(layout.parts) - self.body_of(layout)

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        head, body = self.head_of(local.layout), self.body_of(local.layout)
        fitted = local.train(received, only=head, epochs=self.head_epochs, order="head")
        return Reply(upload=local.train(fitted, only=body))

    def attaching(self, cost: CostSymbols) -> Attaching:
        head = self.head_epochs * cost.n * (cost.FP + cost.BP)  # the whole network is gone through, both ways
        return Attaching(head, "E_h·n(FP+BP)", "−2|head|", from_paper=False)
