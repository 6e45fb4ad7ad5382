"""What attacks by a share of the clients have in common: who attacks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.attacks.interface import Attack
from fedtrip.errors import UserError
from fedtrip.families import ATTACK
from fedtrip.inputs import InputSpec
from fedtrip.randomness import permutation, stream

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Hostile(Attack):
    """Base of the attacks by ⌊share·N + ½⌋ of the N clients: the first so many of an order drawn from the seed."""

    share: Share
    """share of the clients that attack"""

    def check(self, inputs: InputSpec, classes: int, clients: int) -> None:
        if self.share and not _count(self.share, clients):
            raise UserError(
                f"attack '{ATTACK.complete(self)}': share is {self.share}, which is none of {clients} clients; "
                f"accepted: 0, or at least {0.5 / clients:g}"
            )

    def attackers(self, seed: int, clients: int) -> frozenset[int]:
        return _drawn(seed, clients, _count(self.share, clients))


def _count(share: float, clients: int) -> int:
    return int(share * clients + 0.5)


@lru_cache(maxsize=4)
def _drawn(seed: int, clients: int, count: int) -> frozenset[int]:
    """One order for every share, so that a larger one only adds attackers."""
    return frozenset(permutation(stream(seed, "attackers"), clients)[:count].tolist())


def honest_mean(rows: Tensor) -> Tensor:
    """The uniform mean of the honest differences, added in client order."""
    summed = torch.zeros_like(rows[0])
    for row in rows:
        summed += row
    return summed / len(rows)
