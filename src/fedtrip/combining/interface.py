"""What a rule of combining is: how the vectors that the clients sent under one name become one.

A rule sees the differences to what the clients received, in float64, one row a client in client order. What it makes
of them is added to what was received. The mean is special: it is summed as uploads arrive, and needs no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.families import COMBINE
from fedtrip.registry import Rule
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Plan:
    """How many clients are to take part in a run, and how often."""

    clients: int
    """N, those that may take part"""
    per_round: int
    """K, those of a round"""
    rounds: int

    @property
    def rate(self) -> float:
        """q = K/N, the probability that a client takes part in a round."""
        return self.per_round / self.clients


@dataclass(frozen=True)
class Combine(Rule):
    """Base of the rules that combine uploads."""

    is_mean: ClassVar[bool] = False
    """Whether it is the weighted mean, of which there is also a total; no other rule has one."""
    is_private: ClassVar[bool] = False
    """Whether it promises differential privacy: then nothing may leave the clients beside w, and who takes part is
    drawn client by client."""

    def as_planned(self, plan: Plan) -> Self:
        """The rule with what follows from the plan filled in; raises `UserError` if it cannot be."""
        del plan
        return self

    def spent(self, rounds: int, plan: Plan) -> float | None:
        """ε of so many rounds; None for a rule that promises nothing."""
        del rounds, plan
        return None

    def promise(self, rounds: int, plan: Plan, spent: float | None) -> str | None:
        """What a private rule promises after so many rounds that cost this ε, in words."""
        del rounds, plan, spent
        return None

    @property
    def fewest(self) -> int:
        """How many uploads it needs. A round that has fewer, because clients failed, changes nothing and says why; with
        0 there is a step even if nobody sent anything."""
        return 1

    def check(self, clients: int) -> None:
        """Raise `UserError` if the rule cannot work with so many clients a round."""
        if clients < self.fewest:
            raise UserError(
                f"per_round is {clients}, but combine '{COMBINE.complete(self)}' needs {self.fewest} clients in a "
                f"round; accepted: per_round from {self.fewest}, or a rule that needs fewer"
            )

    def further_operations(self, clients: int) -> int:
        """Multiply-adds for each number of an upload, beside one a client that every rule has; comparisons are none."""
        return 0

    def start(self, model: Mapping[str, Tensor]) -> Vectors:
        """What the rule keeps on the server from round to round, before the first one."""
        return {}

    def __call__(
        self, differences: Mapping[str, Tensor], weights: Tensor, state: Vectors, rng: np.random.Generator
    ) -> tuple[Vectors, Vectors]:
        """One vector for each name from its clients × d matrix, and the state for the next round.

        `weights` are the clients' shares of a mean, which add up to one. A rule that picks clients picks them once,
        by `w`, for all names.
        """
        raise NotImplementedError
