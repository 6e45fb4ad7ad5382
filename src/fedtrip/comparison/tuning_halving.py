"""Successive halving: many configurations for a few rounds, the best third of them for three times as many, and so on.

How many there are follows from the budget alone, so that every method has as many, at the same rungs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from fedtrip.errors import UserError

KEPT = 3
"""One configuration of so many goes on to the next rung, which ends after so many times the rounds."""
MOST_RUNGS = 3
FEWEST_ROUNDS = 3
"""A first rung of fewer says nothing."""
FINALISTS = 2
"""The last rung has at least so many configurations: with one there is nothing left to choose."""
MOST_CONFIGURATIONS = 1000


@dataclass(frozen=True)
class Halving:
    """The rungs: so many configurations of each method reach the end of the rung, after so many rounds from the first.

    A configuration that goes on does so from where it was: no round is run twice.
    """

    configurations: tuple[int, ...]
    rounds: tuple[int, ...]
    trials: int

    @property
    def cost(self) -> int:
        """Rounds that a method spends: Σ over the rungs of configurations · trials · rounds more than before."""
        return sum(self.costs())

    def costs(self) -> Iterator[int]:
        """What a method spends on each rung."""
        for count, (before, until) in zip(self.configurations, pairwise((0, *self.rounds)), strict=True):
            yield count * self.trials * (until - before)


def plan_halving(budget: int, rounds: int, trials: int, eval_every: int = 1) -> Halving:
    """The rungs that a budget of rounds for each method allows, for runs of so many rounds and trials.

    As many rungs as leave two configurations for the last one, and then as many configurations as the budget allows.
    Every rung ends with an evaluated round.
    """
    if type(budget) is not int:
        raise UserError(f"budget is {budget!r}; accepted: a whole number of rounds")
    for rungs in range(MOST_RUNGS, 0, -1):
        ends = _ends(rounds, rungs, eval_every)
        if ends is None:
            continue
        fewest = FINALISTS * KEPT ** (rungs - 1)
        most = _most(budget, ends, trials)
        if most >= fewest:
            if most > MOST_CONFIGURATIONS:
                enough = _of(MOST_CONFIGURATIONS, ends, trials).cost
                raise UserError(
                    f"budget is {budget}, enough for {most} configurations of each method; accepted: at most "
                    f"{MOST_CONFIGURATIONS}, a budget of {enough} rounds"
                )
            return _of(most, ends, trials)
    raise UserError(
        f"budget is {budget}; accepted: at least {FINALISTS * rounds * trials} rounds for each method, which let "
        f"{FINALISTS} configurations run {rounds} rounds on {trials} seed{'s'[: trials > 1]}; or fewer rounds or "
        "tuning_trials"
    )


def _ends(rounds: int, rungs: int, every: int) -> tuple[int, ...] | None:
    """After which round each rung ends; None if so many rungs are too short."""
    shares = (-(-rounds // KEPT ** (rungs - 1 - rung)) for rung in range(rungs))
    ends = tuple(min(-(-share // every) * every, rounds) for share in shares)
    rising = all(earlier < later for earlier, later in pairwise(ends))
    return ends if rising and (rungs == 1 or ends[0] >= FEWEST_ROUNDS) else None


def _of(count: int, ends: tuple[int, ...], trials: int) -> Halving:
    return Halving(tuple(count // KEPT**rung for rung in range(len(ends))), ends, trials)


def _most(budget: int, ends: tuple[int, ...], trials: int) -> int:
    """How many configurations the budget allows; what one more costs is not always the same."""
    count = max(budget, 0) // (trials * ends[0])
    while count and _of(count, ends, trials).cost > budget:
        # no more than what is too much, at the price of one that goes all the way; at least one
        count -= max(1, (_of(count, ends, trials).cost - budget) // (trials * ends[-1]))
    return count
