"""Clients that do what they should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedtrip.attacks.interface import Attack, Faults


@dataclass(frozen=True)
class NoAttack(Attack):
    """every client answers, and sends what it computed"""

    title = "all clients are honest and answer"

    def faults(self, seed: int, t: int, chosen: Sequence[int]) -> Faults:
        return Faults()
