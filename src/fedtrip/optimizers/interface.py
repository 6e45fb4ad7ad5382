"""What a local optimizer is: how the direction h becomes a step on the flat vector w."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.registry import Rule
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Optimizer(Rule):
    """Base of the local optimizers. Their state is a few named vectors, new in every round unless a client keeps it."""

    def start(self, w: Tensor) -> Vectors:
        """The state before the first step."""
        raise NotImplementedError

    def step(self, w: Tensor, h: Tensor, state: Vectors, *, lr: float, linear: float, decay: float) -> None:
        """One step on w in place, in the direction h + linear·w; h may be overwritten.

        `linear` is a method's affine correction; `decay` is the λ of weight decay, which an optimizer that decouples it
        treats in its own way.
        """
        raise NotImplementedError

    def travel(self, lr: float, steps: int, *, kept: bool) -> float | None:
        """How far so many steps go on a constant gradient of length one; None where that has no meaning.

        `kept` says that the state is kept from round to round.
        """
        raise NotImplementedError

    def travel_with(self, prox: float, lr: float, steps: int, *, kept: bool) -> float:
        """The same where each step is also pulled back by `prox` times the way it has come, as FedProx's are."""
        raise UserError(
            f"optimizer {type(self).__name__} cannot say how far its steps go with a proximal term; accepted: sgd, or "
            "no such term"
        )

    @property
    def operations(self) -> int:
        """Multiply-adds for each parameter and step."""
        raise NotImplementedError
