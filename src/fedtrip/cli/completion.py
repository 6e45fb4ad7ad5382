"""What the shell offers for an unfinished word. Names come from the registry; nothing heavy is imported for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

import typer

from fedtrip.families import FAMILIES, METHOD, model_names
from fedtrip.registry import Family

Complete = Callable[[str], list[str]]


def rules_of(family: Family) -> Complete:
    """The family's rules; a name that needs a parameter ends with its colon."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(incomplete, _words(family))

    return complete


def several(complete: Complete) -> Complete:
    """Names separated by commas: the last one is completed."""

    def complete_last(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + word for word in complete(last)]

    return complete_last


def data_sets(incomplete: str) -> list[str]:
    """Known data sets, and what names files of one's own."""
    from fedtrip.data.catalog import KNOWN_SETS
    from fedtrip.data.sources import FORMS

    return _beginning(incomplete, (*KNOWN_SETS, *(f"{kind}:" for kind in FORMS)))


def models(incomplete: str) -> list[str]:
    """Built-in models."""
    return _beginning(incomplete, model_names())


def methods(incomplete: str) -> list[str]:
    """Names for `--methods`: methods, and groups of them."""
    return _beginning(incomplete, (*METHOD.names(), "paper", "all"))


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """What `--set` may begin with: a field, a family or a method; behind its dot, the options of its rule."""
    from fedtrip.experiment.description import Experiment

    owner, dot, _ = incomplete.partition(".")
    if dot:
        return _beginning(incomplete, [f"{owner}.{option}=" for option in _options_of(owner, ctx.params)])
    fields = Experiment.model_fields.keys() - {"schema_version", "method"}
    begun = [name for name in METHOD.names() if name.startswith(incomplete)]
    owners = (FAMILIES.keys() - {"partition"}) | {name for name in begun if METHOD.options(name)}
    return _beginning(incomplete, sorted({f"{name}=" for name in fields} | {f"{name}." for name in owners}))


def _options_of(owner: str, typed: Mapping[str, Any]) -> list[str]:
    """The options of a method, or of the family's rule that was typed so far; of the method also of all compared."""
    if owner in METHOD.names():
        return list(METHOD.options(owner))
    family = FAMILIES.get(owner)
    if family is None or owner == "partition":
        return []
    named = typed.get("methods") if owner == METHOD.field and typed.get("methods") else typed.get(owner)
    names = [name.partition(":")[0] for name in str(named or family.default).split(",")]
    known = [name for name in names if name in family.names()] or family.names()  # of paper and all, every method's
    return list(dict.fromkeys(option for name in known for option in family.options(name)))


def entries(incomplete: str) -> list[str]:
    """What `fedtrip reproduce` takes."""
    from fedtrip.paper.names import ENTRY_NAMES

    return _beginning(incomplete, (*ENTRY_NAMES, "all"))


def known_sets(incomplete: str) -> list[str]:
    """Data sets that have a name."""
    from fedtrip.data.catalog import KNOWN_SETS

    return _beginning(incomplete, KNOWN_SETS)


def families(incomplete: str) -> list[str]:
    """What `fedtrip list` takes first."""
    return _beginning(incomplete, (*FAMILIES, "dataset", "model"))


def listed(family: str, incomplete: str) -> list[str]:
    """What `fedtrip list FAMILY` takes next."""
    if family in ("model", "models"):
        return models(incomplete)
    if family in ("dataset", "data"):
        return data_sets(incomplete)
    found = next((one for one in FAMILIES.values() if family in (one.field, one.folder)), None)
    return [] if found is None else _beginning(incomplete, found.names())


def of_field(name: str) -> Complete | None:
    """How the values of an experiment's field are completed; None where any number or text may stand."""
    from fedtrip.experiment.description import Experiment

    if name in FAMILIES:
        return rules_of(FAMILIES[name])
    words = {"device": ("cpu", "cuda", "mps"), "clip": ("gradient:",), "eval_clients": ("every:",)}.get(name)
    if get_origin(kind := Experiment.model_fields[name].annotation) is Literal:
        words = get_args(kind)
    if words is not None:
        return lambda incomplete: _beginning(incomplete, words)
    return {"dataset": data_sets, "model": models}.get(name)


def _words(family: Family) -> list[str]:
    colons = {name: family.colon_of(name) for name in family.names()}
    return [f"{name}:" if colon is not None and colon.is_needed else name for name, colon in colons.items()]


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
