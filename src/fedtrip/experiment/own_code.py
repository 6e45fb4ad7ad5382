"""The code that an experiment names, as `package.module:name`: a stored run must not run it unasked."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from fedtrip.errors import UserError
from fedtrip.experiment.description import PYTHON, Experiment
from fedtrip.families import FAMILIES
from fedtrip.printable import one_line

FIELDS = ("model", *FAMILIES)
"""The fields that may name code."""
TO_SCORE = ("model", "task")
"""Those of them that whoever tests a stored model needs."""
TO_SHOW = (*TO_SCORE, "partition")
"""Those that whoever looks at its clients needs too."""


def own_code(experiment: Experiment, fields: Collection[str] = FIELDS) -> list[str]:
    """The code that these fields name, in words: `model 'package.module:factory'`."""
    named = {field: _code(field, getattr(experiment, field)) for field in FIELDS if field in fields}
    return [f"{field} '{code}'" for field, code in named.items() if code is not None]


def _code(field: str, value: Any) -> str | None:
    """The code that a field names; None if it names a built-in thing or an object that was given from Python."""
    if value is None or (field == "model" and value.startswith(PYTHON)):
        return None
    name: str = value if field == "model" else FAMILIES[field].read(value).name
    return name if ":" in name else None


def to_show(experiment: Experiment) -> Experiment:
    """A complete experiment for those who need its data, model, task and partition only: other rules are built-in.

    A model that the native engine trained can be looked at without it, and one from a GPU without that.
    """
    fields = {name: getattr(experiment, name) for name in experiment.model_fields_set}
    rules = {name: family.default for name, family in FAMILIES.items() if name not in TO_SHOW}
    compute = "torch" if experiment.compute == "torch" else "auto"
    return Experiment(**{**fields, **rules, "compute": compute, "device": "cpu"})


def to_score(experiment: Experiment) -> Experiment:
    """The same without its partition, where that is code: nobody's share is drawn."""
    shown = to_show(experiment)
    if not own_code(shown, ["partition"]):
        return shown
    if shown.samples_per_client is None:  # the data come split
        return shown.but(partition="given")
    return shown.but(partition="iid", draw="overlap", samples_per_client=1)


def check_trusted(run: Path, experiment: Experiment, trust: bool, given: Collection[str] = ()) -> None:
    """Refuse to test a stored run's model by code that the caller has not said to trust; say what is run.

    `given` are the fields for which the caller brings an object of its own.
    """
    code = own_code(experiment, [field for field in TO_SCORE if field not in given])
    if not code:
        return
    if not trust:
        instead = ", or in Python the model itself as model=" if code[0].startswith("model") else ""
        raise UserError(
            f"run '{run}' names code, {', '.join(code)}, which is not run unasked; accepted: --trust (in Python "
            f"trust=True) if you trust it{instead}"
        )
    say_code(code)


def say_code(code: Sequence[str]) -> None:
    """One line on stderr, before it is imported."""
    if code:
        print(one_line(f"runs code: {', '.join(code)}"), file=sys.stderr)
