"""What an attack is: which of a round's clients do not behave, and what they send instead.

Who fails, and how, is a function of seed, round and client alone: the same on every engine, and the same for every
method of a comparison. A larger probability only adds faults to those of a smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedtrip.registry import Rule
from fedtrip.vectors import Vectors


class Spoiling(Protocol):
    """How one client spoils what it sends."""

    def __call__(self, upload: Vectors) -> Vectors:
        """What it sends in place of its upload."""


@dataclass(frozen=True)
class Faults:
    """What goes wrong with the chosen clients of one round."""

    dropped: tuple[int, ...] = ()
    """clients that never answer; they keep their memory"""
    spoiled: Mapping[int, Spoiling] = field(default_factory=dict)
    """clients that send something else than what they computed"""


@dataclass(frozen=True)
class Attack(Rule):
    """Base of the attacks."""

    def faults(self, seed: int, t: int, chosen: Sequence[int]) -> Faults:
        """What goes wrong in round t with the chosen clients."""
        raise NotImplementedError
