"""`--set NAME=VALUE`: which field of an experiment, or which option of which of its rules, a name means.

lr                     a field
method.mu              an option of the method, whichever it is
fedtrip.mu             an option of this method
optimizer.beta1        an option of the experiment's rule of that family
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtrip.errors import UserError, unknown_name
from fedtrip.experiment.defaults import changed, chosen_options
from fedtrip.experiment.description import Experiment
from fedtrip.families import FAMILIES, METHOD
from fedtrip.registry import Choice

WITH_OPTIONS = tuple(name for name in FAMILIES if name != "partition")
"""The families whose rules' options can be set; a partition is a text, with its options behind the colon."""


def check_setting(
    name: str, methods: Sequence[str], fields: Sequence[str], *, compared: bool = False, called: str = "--set"
) -> None:
    """Refuse a name that means nothing where these methods are run (or compared) and these fields may be set.

    `called` is the option that gives it.
    """
    owner, dot, option = name.rpartition(".")
    if not dot:
        if name not in fields:
            raise unknown_name(called, name, fields, also="FAMILY.OPTION such as method.mu")
    elif owner == "partition":
        raise UserError(f"{called} {name}: a partition has its option behind the colon; accepted: partition=NAME:VALUE")
    elif owner not in (*WITH_OPTIONS, *methods):
        if owner in METHOD.names() or ":" in owner:
            if compared:
                told = f"method '{owner}' is not compared; accepted: {', '.join(methods)}, or method"
            else:
                told = f"the method is '{methods[0]}'; accepted: {methods[0]}.{option} or method.{option}"
            raise UserError(f"{called} {name}: {told}")
        raise unknown_name(f"{called} {name}:", owner, (*WITH_OPTIONS, *methods))


def concerns(name: str, method: str) -> bool:
    """Whether a setting has a meaning for an experiment with this method: those of another method have none."""
    owner, dot, _ = name.rpartition(".")
    return not dot or owner in WITH_OPTIONS or owner == method


def with_settings(
    base: Experiment, method: str, settings: Mapping[str, Any], options_given: Mapping[str, Any] | None = None
) -> Experiment:
    """The experiment with this method and these settings, all of which concern it.

    Options of a rule are added to those that the experiment has for it; those of another method are dropped. A method
    that is given with its options has those and no others.
    """
    fields = {name: value for name, value in settings.items() if "." not in name}
    if options_given is not None:
        options = dict(options_given)
    else:
        options = chosen_options(base) if method == base.method.name else {}
    for name, value in settings.items():
        owner, dot, option = name.rpartition(".")
        if owner in ("method", method):
            options[option] = value
        elif dot:
            family = FAMILIES[owner]
            fields[owner] = family.with_option(family.read(fields.get(owner, getattr(base, owner))), option, value)
    return changed(base, **fields, method=Choice(method, options))
