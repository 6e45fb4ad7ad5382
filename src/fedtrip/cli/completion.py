"""What the shell offers for an unfinished word. Names come from the registry; nothing heavy is imported for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


def settings(incomplete: str) -> list[str]:
    """What `--set` may begin with: a field, or a family whose rule has options."""
    from fedtrip.experiment.description import Experiment

    fields = Experiment.model_fields.keys() - {"schema_version", "method"}
    options = FAMILIES.keys() - {"partition"}
    return _beginning(incomplete, sorted({f"{name}=" for name in fields} | {f"{name}." for name in options}))


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
    if name in FAMILIES:
        return rules_of(FAMILIES[name])
    return {"dataset": data_sets, "model": models}.get(name)


def _words(family: Family) -> list[str]:
    colons = {name: family.colon_of(name) for name in family.names()}
    return [f"{name}:" if colon is not None and colon.is_needed else name for name, colon in colons.items()]


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
