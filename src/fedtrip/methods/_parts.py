"""A model as a body and a head, for the methods that treat the two differently."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.errors import UserError
from fedtrip.layout import Layout
from fedtrip.methods.interface import Method, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class BodyAndHead(Method):
    """Base of the methods that tell a body from a head."""

    head: str = ""
    """the layer (or group of layers) that is the head, by its name in the model; empty: the last fully connected one"""

    def head_of(self, layout: Layout) -> frozenset[str]:
        """The parts of the head."""
        return layout.below(self.head) if self.head else layout.head

    def body_of(self, layout: Layout) -> frozenset[str]:
        """All other parts; a model that has nothing else to train is refused."""
        head = self.head_of(layout)
        body = frozenset(layout.parts) - head
        if not any(layout.parts[name].vector == "w" for name in body):
            told = f"head is '{self.head}'" if self.head else "head is the only fully connected layer"
            raise UserError(
                f"{told}, which is all that the model has to train; accepted: a model with a body below its head, or "
                "method fedavg or local"
            )
        return body

    def kept(self, server: Server) -> Vectors:
        return {}  # beside the parts that are kept because they stay
