"""Fair tuning: every method has the same budget of rounds, and what each of them tried is judged the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtrip.comparison.tuning_halving import Halving
from fedtrip.comparison.tuning_judge import Standing, objective, ranked
from fedtrip.comparison.tuning_space import Configuration, Space, Values
from fedtrip.methods.interface import Method
from fedtrip.tasks.interface import Goal

Rung = Mapping[str, Mapping[int, Standing]]
"""Method → number of a configuration → its standing at the end of the rung."""
Evaluate = Callable[[int, Mapping[str, Sequence[int]]], Rung]
"""Runs the trials of these configurations of each method until a round, and says how they stand then."""


@dataclass(frozen=True)
class MethodPlan:
    """What one method is tuned over, and what is tried of it."""

    method: str
    space: Space
    configurations: tuple[Configuration, ...]
    """the first has the method's defaults"""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a tuning will do, decided before anything is run."""

    budget: int
    """rounds that every method may spend"""
    halving: Halving
    seeds: tuple[int, ...]
    """of the trials by which configurations are chosen"""
    fresh_seeds: tuple[int, ...]
    """of the verdict; none of the others"""
    goal: Goal
    target: float | None
    validation: float
    """share of the training set on which configurations are judged"""
    methods: tuple[MethodPlan, ...]

    @property
    def objective(self) -> str:
        """What is judged, in words."""
        return objective(self.goal, self.target)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain data."""
        rungs = zip(self.halving.rounds, self.halving.configurations, self.halving.costs(), strict=True)
        return {
            "budget": self.budget,
            "spent": self.halving.cost,
            "rungs": [{"rounds": end, "configurations": count, "spent": cost} for end, count, cost in rungs],
            "objective": self.objective,
            "target": self.target,
            "validation": self.validation,
            "seeds": list(self.seeds),
            "fresh_seeds": list(self.fresh_seeds),
            "ranges": {one.method: {name: str(values) for name, values in one.space.items()} for one in self.methods},
            "configurations": {one.method: [dict(c.values) for c in one.configurations] for one in self.methods},
        }


def halved(plan: Plan, evaluate: Evaluate, stored: Sequence[Rung] = ()) -> Iterator[Rung]:
    """The rungs one after the other; those that are `stored` are not run again.

    All methods climb a rung together, and of each the same number goes on.
    """
    left: dict[str, list[int]] = {one.method: [c.number for c in one.configurations] for one in plan.methods}
    counts = (*plan.halving.configurations[1:], 1)
    for place, (until, count) in enumerate(zip(plan.halving.rounds, counts, strict=True)):
        rung = stored[place] if place < len(stored) else evaluate(until, left)
        yield rung
        left = {method: sorted(ranked(rung[method], plan.goal)[:count]) for method in left}


@dataclass(frozen=True)
class Tried:
    """A configuration with its standing at the end of every rung that it climbed."""

    configuration: Configuration
    standings: tuple[Standing, ...]

    @property
    def number(self) -> int:
        """0 for the defaults."""
        return self.configuration.number

    @property
    def values(self) -> Values:
        """What it has for all that is tuned."""
        return self.configuration.values


@dataclass(frozen=True)
class TunedMethod:
    """What tuning made of one method."""

    method: str
    space: Space
    tried: tuple[Tried, ...]
    chosen: Tried
    spent: int
    """rounds, those of eliminated configurations included; a trial that diverged has spent its whole rung"""
    run: int
    """the rounds that were really run: fewer than were spent if a trial diverged"""
    remarks: tuple[str, ...]

    @property
    def values(self) -> Values:
        """The chosen values."""
        return self.chosen.values

    @property
    def defaults(self) -> Values:
        """The values before."""
        return self.tried[0].values

    def eliminated(self, one: Tried) -> int | None:
        """The rung, from 1, after which a configuration did not go on; None for the chosen one."""
        return None if one is self.chosen else len(one.standings)


def tuned_methods(plan: Plan, rungs: Sequence[Rung]) -> dict[str, TunedMethod]:
    """What came out of all rungs, by method."""
    return {one.method: _tuned(plan, one, rungs) for one in plan.methods}


def _tuned(plan: Plan, one: MethodPlan, rungs: Sequence[Rung]) -> TunedMethod:
    tried = tuple(
        Tried(c, tuple(rung[one.method][c.number] for rung in rungs if c.number in rung[one.method]))
        for c in one.configurations
    )
    chosen = tried[ranked(rungs[-1][one.method], plan.goal)[0]]
    diverged = sum(each.standings[-1].diverged for each in tried)
    run = sum(each.standings[-1].run for each in tried)
    spent = sum(len(each.standings[-1].scores) * each.standings[-1].until for each in tried)
    remarks = list(one.remarks)
    if diverged:
        remarks.append(
            f"{diverged} of its trials diverged: {spent - run} of its rounds were not run, and count as spent"
        )
    remarks += [
        f"the chosen {name} of {value:g} lies at an end of its range {values}: a wider one may hold a better value"
        for name, value in chosen.values.items()
        if (values := one.space[name]).is_near_an_end(value)
    ]
    return TunedMethod(one.method, one.space, tried, chosen, spent, run, tuple(remarks))


def remarks_on(method: Method, declared: bool) -> tuple[str, ...]:
    """What one should know of tuning a method of this class."""
    cls, remarks = type(method), []
    if not declared:
        remarks.append("declares no ranges of its own: nothing else of it is tuned")
    own = ("stays", "personal_model", "personalise")
    if any(getattr(cls, name) is not getattr(Method, name) for name in own):
        remarks.append("clients have models of their own, but the global model is what is judged")
    return tuple(remarks)
