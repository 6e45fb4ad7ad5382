"""Clients that do what they should."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.attacks.interface import Attack


@dataclass(frozen=True)
class NoAttack(Attack):
    """every client answers, and sends what it computed"""

    title = "all clients are honest and answer"
