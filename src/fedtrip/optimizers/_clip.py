"""Clipping: the direction of a local step cut to a length, as many methods' own code does without saying so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.vectors import norm


@dataclass(frozen=True)
class Clip:
    """v ← v·min(1, bound/‖v‖), of the step after all corrections, or of the gradient before them."""

    bound: float
    of: Literal["step", "gradient"]

    def cut(self, vector: Tensor) -> None:
        """Cut the vector in place."""
        length = norm(vector)
        if length > self.bound:
            vector.mul_(self.bound / length)


def read_clip(text: str) -> Clip:
    """`10` or `step:10` as a bound of the step, `gradient:10` of the gradient."""
    of, colon, number = text.rpartition(":")
    kind = of if colon else "step"
    try:
        bound = float(number)
    except ValueError:
        bound = float("nan")
    if kind not in ("step", "gradient") or not 0 < bound < float("inf"):
        raise UserError(
            f"clip is '{text}'; accepted: a length above 0 like 10 for the step, gradient:10 for the gradient"
        )
    return Clip(bound, "gradient" if kind == "gradient" else "step")
