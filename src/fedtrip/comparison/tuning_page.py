"""A tuning for people: the budget, the ranges, what was chosen, everything that was tried, and before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedtrip.comparison.tables import interval, markdown_row, markdown_table
from fedtrip.comparison.tuning import Plan, Tried, TunedMethod
from fedtrip.comparison.tuning_judge import Standing
from fedtrip.comparison.variants import Row
from fedtrip.statistics import Ratio
from fedtrip.tasks.interface import Goal

Gains = Mapping[str, Ratio | None]
"""Method → rounds to target with its defaults over those with the chosen values, paired by seed."""


def outcome_as_json(tuned: Mapping[str, TunedMethod], gains: Gains, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What came out, as plain data."""
    return {
        "chosen": {
            name: {
                "configuration": one.chosen.number,
                "values": dict(one.values),
                "defaults": dict(one.defaults),
                "spent": one.spent,
                "run": one.run,
                "eliminated": [one.eliminated(each) for each in one.tried],
                "remarks": list(one.remarks),
            }
            for name, one in tuned.items()
        },
        "verdict": {
            "gain": {name: None if ratio is None else asdict(ratio) for name, ratio in gains.items()},
            "rows": list(rows),
        },
    }


def tuning_page(title: str, plan: Plan, tuned: Mapping[str, TunedMethod], gains: Gains, rows: Sequence[Row]) -> str:
    """The page in Markdown."""
    parts = [
        f"# Tuning: {title}",
        _budget(plan),
        "## Before and after",
        _verdict(plan, gains, rows),
        "## What was chosen",
        _chosen(tuned),
        "## What was tried",
        _how_to_read(plan),
        *(part for one in tuned.values() for part in (f"### {one.method}", _tried(plan, one))),
    ]
    return "\n\n".join(parts) + "\n"


def _budget(plan: Plan) -> str:
    halving, spent = plan.halving, list(plan.halving.costs())
    told = (
        f"Every method had a budget of {plan.budget:,} rounds and spent {halving.cost:,} of them, those of eliminated "
        f"configurations included: {halving.configurations[0]} configurations, its defaults among them, "
        f"on the seed{'s'[: len(plan.seeds) > 1]} {_listed(plan.seeds)}, the same for all."
    )
    lines = [["rung", "configurations", "until round", "rounds spent"], ["---"] * 4]
    lines += [
        [str(place), str(count), str(until), f"{cost:,}"]
        for place, (count, until, cost) in enumerate(
            zip(halving.configurations, halving.rounds, spent, strict=True), start=1
        )
    ]
    judged = (
        f"Judged by: {plan.objective}. The validation set is {plan.validation:g} of the training set, on which nobody "
        "trains. No test score was looked at."
    )
    return f"{told}\n\n{_table(lines)}\n\n{judged}"


def _verdict(plan: Plan, gains: Gains, rows: Sequence[Row]) -> str:
    seeds = f"Seed{'s'[: len(plan.fresh_seeds) > 1]} {_listed(plan.fresh_seeds)}, none of which was used to choose."
    table, how = markdown_table(rows)
    parts = [seeds, table, how]
    if plan.target is not None:
        lines = [["method", "defaults' rounds over the tuned ones' [95 %]"], ["---"] * 2]
        lines += [[name, interval(ratio)] for name, ratio in gains.items()]
        told = "Above 1 the tuned values need fewer rounds; paired by seed. A dash: neither reached the target."
        parts += [_table(lines), told]
    parts.append("A tuned variant's speed-up is over tuned fedavg, that of the others over fedavg with its defaults.")
    return "\n\n".join(parts)


def _chosen(tuned: Mapping[str, TunedMethod]) -> str:
    lines = [["method", "configuration", "tuned", "range", "default", "chosen"], ["---"] * 6]
    remarks = []
    for one in tuned.values():
        told = "0, its defaults" if one.chosen.number == 0 else str(one.chosen.number)
        for name, values in one.space.items():
            default, chosen = one.defaults[name], one.values[name]
            lines.append([one.method, told, _short(name, one.method), str(values), _shown(default), _shown(chosen)])
        remarks += [f"- {one.method}: {remark}." for remark in one.remarks]
    return "\n\n".join([_table(lines), *(["\n".join(remarks)] if remarks else [])])


def _how_to_read(plan: Plan) -> str:
    what = "" if plan.target is None else "mean rounds to the target on the validation set, "
    return (
        f"Number 0 has the defaults. A rung's cell: {what}mean validation {plan.goal.score}; *diverged* with the "
        "number of trials that did. The best of a rung go on."
    )


def _tried(plan: Plan, one: TunedMethod) -> str:
    names, rungs = list(one.space), len(plan.halving.rounds)
    lines = [["number", *(_short(name, one.method) for name in names)]]
    lines[0] += [f"rung {place}" for place in range(1, rungs + 1)] + ["eliminated after"]
    lines.append(["---"] * len(lines[0]))
    for each in sorted(one.tried, key=lambda each: (-len(each.standings), each is not one.chosen, each.number)):
        cells = [_cell(standing, plan.goal, plan.target) for standing in each.standings]
        lines.append(
            [
                str(each.number),
                *(_shown(each.values[name]) for name in names),
                *cells,
                *[""] * (rungs - len(cells)),
                _ended(one, each),
            ]
        )
    return _table(lines)


def _ended(one: TunedMethod, each: Tried) -> str:
    rung = one.eliminated(each)
    return "**chosen**" if rung is None else f"rung {rung}"


def _cell(standing: Standing, goal: Goal, target: float | None) -> str:
    parts = []
    if standing.diverged:
        parts.append(f"diverged ({standing.diverged})")
    else:
        if target is not None:
            missed = any(number is None for number in standing.reached)
            parts.append(f"{'>' if missed else ''}{standing.rounds:.1f}")
        assert standing.score is not None
        parts.append(goal.shown(standing.score))
    return ", ".join(parts)


def in_a_line(values: Mapping[str, Any], method: str) -> str:
    """Values for a sentence: `lr=0.1, mu=0.4`."""
    return ", ".join(f"{_short(name, method)}={_shown(value)}" for name, value in values.items()) or "nothing to choose"


def _short(name: str, method: str) -> str:
    """An option of the method without its name, unless a field of the experiment is called so too."""
    option = name.removeprefix(f"{method}.")
    return name if option == "lr" and option != name else option


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(map(markdown_row, lines))
