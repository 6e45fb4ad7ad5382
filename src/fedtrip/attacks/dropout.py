"""Clients that never answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedtrip.attacks._draws import draw
from fedtrip.attacks.interface import Attack, Faults


@dataclass(frozen=True)
class Dropout(Attack):
    """each chosen client never answers with probability p"""

    title = "some chosen clients never answer; they keep their memory"
    parameter = "p"

    p: Annotated[float, Field(ge=0, le=1)]
    """p, the probability that a chosen client never answers"""

    def faults(self, seed: int, t: int, chosen: Sequence[int]) -> Faults:
        return Faults(dropped=tuple(client for client in chosen if draw(seed, t, client).drops < self.p))
