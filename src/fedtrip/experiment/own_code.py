"""The code that an experiment names, as `package.module:name`: a stored run must not run it unasked."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedtrip.errors import UserError
from fedtrip.experiment.description import PYTHON, Experiment
from fedtrip.families import FAMILIES
from fedtrip.printable import one_line

FOR_THE_MODEL = ("model", "task", "partition")
"""What makes and scores a stored model; the other rules only trained it."""


def own_parts(experiment: Experiment) -> dict[str, str]:
    """Field → the code it names, for the model and every rule that is not a known one or given from Python."""
    found = {}
    if ":" in experiment.model and not experiment.model.startswith(PYTHON):
        found["model"] = experiment.model
    for field, family in FAMILIES.items():
        value = getattr(experiment, field)
        if value is not None and ":" in (name := family.read(value).name):
            found[field] = name
    return found


def own_code(experiment: Experiment) -> list[str]:
    """All code that a run of the experiment imports, in words."""
    return _in_words(own_parts(experiment))


def own_code_of_model(experiment: Experiment, *, given: bool = False) -> dict[str, str]:
    """Field → code, of what makes and scores its model; the model itself may be `given` from Python."""
    needed = FOR_THE_MODEL[1:] if given else FOR_THE_MODEL
    return {field: name for field, name in own_parts(experiment).items() if field in needed}


def without_method(experiment: Experiment) -> Experiment:
    """A complete experiment for those who need its data, model and scores only: no other rule's code is imported."""
    own = [field for field in own_parts(experiment) if field not in FOR_THE_MODEL]
    return experiment.but(**{**{field: FAMILIES[field].default for field in own}, "method": "fedavg"})


def check_trusted(run: Path, experiment: Experiment, trust: bool, *, given: bool = False) -> None:
    """Refuse to build and score the model of a stored run by code that the caller does not trust; say what is run."""
    code = _in_words(own_code_of_model(experiment, given=given))
    if code and not trust:
        raise UserError(
            f"run '{run}' names code, {', '.join(code)}, which is not run unasked; accepted: --trust (in Python "
            "trust=True) if you trust it, or in Python a model itself as model="
        )
    say_code(code)


def _in_words(parts: Mapping[str, str]) -> list[str]:
    return [f"{field} '{name}'" for field, name in parts.items()]


def say_code(code: Sequence[str]) -> None:
    """One line on stderr, before it is imported."""
    if code:
        print(one_line(f"runs code: {', '.join(code)}"), file=sys.stderr)
