"""FedBABU (Oh, Kim and Yun, 2022): only the body is trained; a client fine-tunes when it uses the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fedtrip.layout import Layout
from fedtrip.methods._parts import BodyAndHead
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Reply
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedBabu(BodyAndHead):
    """step g on the body alone, everyone's head is w⁰'s; server: the body of w ← uniform mean of those of w_k

    A client's own model, which `eval_clients` asks for, is the global one after E_f epochs of fine-tuning on its
    samples: of all parts, of the head or of the body. It is made for the evaluation and thrown away; its multiply-adds
    are not counted among those of the rounds.
    """

    title = "the body is trained below a head that never changes; clients fine-tune the result"
    group = "personal"
    formula = r"""
    step: g \text{ on } \text{body}_k \text{ alone}, \quad \text{head}_k = \text{head}^0
    server: \text{body} \leftarrow \overline{\text{body}}
    own: w \text{ after } E_f \text{ epochs of fine-tuning}
    """
    weighting = "uniform"

    tuned: Literal["all", "head", "body"] = "all"
    """what a client fine-tunes for its own model"""
    tuning_epochs: Annotated[int, Field(ge=0)] = 5
    """E_f, epochs of fine-tuning"""

    def stays(self, layout: Layout) -> frozenset[str]:
        return frozenset(layout.parts) - self.body_of(layout)

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        return Reply(upload=local.train(received, only=self.body_of(local.layout)))

    def personalise(self, received: Vectors, memory: Memory, local: Local) -> Vectors:
        of = {"all": None, "head": self.head_of(local.layout), "body": self.body_of(local.layout)}
        return local.train(received, only=of[self.tuned], epochs=self.tuning_epochs, order="tuning")

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "−2|head|", from_paper=False)
