"""What each method is tuned over, and the configurations that are drawn from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation
from fedtrip.experiment.rules import make_rules
from fedtrip.experiment.settings import check_setting, concerns, with_settings
from fedtrip.families import FAMILIES, METHOD
from fedtrip.methods.interface import Choices, Method, Range
from fedtrip.randomness import permutation, stream, uniforms
from fedtrip.registry import option_fields

LR_BELOW, LR_ABOVE = 10, 100
"""The learning rate is tuned from a tenth of the experiment's to a hundred times it, if nothing is said."""
TUNED = (
    "augment", "batch_size", "clip", "combine", "keep_optimizer_state", "local_epochs", "lr", "lr_schedule", "momentum",
    "optimizer", "server_optimizer", "weight_decay",
)  # fmt: skip
"""The fields that may be tuned: how one trains. The others say what is learnt, by whom, and how it is measured."""
ATTEMPTS = 100
"""How often a configuration is drawn again that is there already."""

Values = Mapping[str, Any]
"""Values of what is tuned, by name: `METHOD.option`, an option of another rule, or a field of the experiment."""
Space = dict[str, Range | Choices]


@dataclass(frozen=True)
class Configuration:
    """One way to run a method: number 0 has its defaults."""

    number: int
    values: Values


def check_tuned(names: Iterable[str], methods: Sequence[str]) -> None:
    """Refuse a name that cannot be tuned where these methods are."""
    for name in names:
        if name in Experiment.model_fields and name not in TUNED:
            raise UserError(f"--range {name}: that is not tuned; accepted: {', '.join(TUNED)}, or METHOD.OPTION")
        check_setting(name, methods, TUNED, compared=True, called="--range")
        owner, dot, _ = name.rpartition(".")
        if dot and owner not in (*methods, "method", *TUNED):
            accepted = ", ".join(family for family in FAMILIES if family in TUNED)
            raise UserError(
                f"--range {name}: options of '{owner}' are not tuned; accepted: those of a method, or of {accepted}"
            )


def space_of(method: str, base: Experiment, given: Mapping[str, Range | Choices], fixed: Values) -> Space:
    """What a method is tuned over: the learning rate, what it declares, and what was given in their place or beside.

    What is `fixed` is not tuned. Every range is tried at its ends, and refused by name.
    """
    cls = METHOD.find(METHOD.read(method).name)
    assert issubclass(cls, Method)
    own = {one.name for one in option_fields(cls)}
    if wrong := cls.ranges.keys() - own:
        raise UserError(f"method '{method}' declares a range of '{sorted(wrong)[0]}', which is no option of it")
    lr = Range(float(f"{base.lr / LR_BELOW:.3g}"), float(f"{base.lr * LR_ABOVE:.3g}"), "log")
    space: Space = {"lr": lr, **{f"{method}.{option}": values for option, values in cls.ranges.items()}}
    space |= {of_method(name, method): values for name, values in given.items() if concerns(name, method)}
    settings = {of_method(name, method): value for name, value in fixed.items() if concerns(name, method)}
    space = {name: values for name, values in space.items() if name not in settings}
    for name, values in space.items():
        for end in values.ends:
            try:
                make_rules(with_settings(base, method, {**settings, name: end}))
            except UserError as problem:
                hint = "; whole numbers one by one, such as 1,2,5" if "integer" in str(problem) else ""
                raise UserError(f"--range {name}={values}: {problem}{hint}") from None
    return space


def of_method(name: str, method: str) -> str:
    """A name with `method.` in front as the method's own: `method.mu` is `fedprox.mu`."""
    owner, dot, option = name.rpartition(".")
    return f"{method}.{option}" if dot and owner == "method" else name


def default_values(space: Space, federation: Federation) -> dict[str, Any]:
    """What a federation that was not tuned has for all that is tuned."""
    values = {}
    for name in space:
        owner, dot, option = name.rpartition(".")
        if not dot:
            value = getattr(federation.experiment, name)
            values[name] = value if isinstance(value, (int, float)) else str(value)
        else:
            rule = getattr(federation.rules, owner, federation.rules.method)
            values[name] = getattr(rule, option)
    return values


def draw(method: str, space: Space, default: Values, count: int, seed: int) -> tuple[Configuration, ...]:
    """So many configurations of a method, all different: the defaults first.

    A Latin hypercube: a range is cut into as many equal parts as are drawn from it, and every part is drawn from once.
    What is drawn depends on the seed, the name and the count alone, so that methods get the same learning rates.
    """
    there_are = math.prod(values.count for values in space.values())
    inside = all(isinstance(values, Choices) and default[name] in values.values for name, values in space.items())
    if there_are + (not inside) < count:
        raise _too_few(method, space, count)
    drawn = [dict(default)]
    columns = {name: _hypercube(values, count - 1, seed, name) for name, values in space.items()}
    for place in range(count - 1):
        one, attempt = {name: column[place] for name, column in columns.items()}, 0
        while one in drawn:  # of a few choices the same may come twice
            attempt += 1
            if attempt > ATTEMPTS:
                raise _too_few(method, space, count)
            one = {name: _once_more(values, seed, name, place, attempt) for name, values in space.items()}
        drawn.append(one)
    return tuple(Configuration(number, values) for number, values in enumerate(drawn))


def _hypercube(values: Range | Choices, count: int, seed: int, name: str) -> list[Any]:
    rng = stream(seed, f"tuning {name}")
    parts, within = permutation(rng, count), uniforms(rng, count)
    return [values.at((int(part) + float(u)) / count) for part, u in zip(parts, within, strict=True)]


def _once_more(values: Range | Choices, seed: int, name: str, place: int, attempt: int) -> Any:
    return values.at(float(uniforms(stream(seed, f"tuning {name}", place, attempt), 1)[0]))


def _too_few(method: str, space: Space, count: int) -> UserError:
    tuned = "; ".join(f"{name} over {values}" for name, values in space.items()) or "nothing"
    return UserError(
        f"{method} has fewer configurations than the {count} that the budget is for (tuned: {tuned}); accepted: a "
        "smaller --budget, or a wider --range such as lr=0.001..1:log"
    )


def fields_of(space: Space, method: str) -> set[str]:
    """The fields of the experiment, beside the method, in which tuned variants may differ."""
    owners = {name.rpartition(".")[0] or name for name in space}
    return owners - {method}
