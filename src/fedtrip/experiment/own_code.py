"""The code that an experiment names, as `package.module:name`: a stored run must not run it unasked."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fedtrip.errors import UserError
from fedtrip.experiment.description import PYTHON, Experiment
from fedtrip.printable import one_line


def own_model(experiment: Experiment) -> str | None:
    """The code of the experiment's model, in words; None if the model is a known one or was given from Python."""
    named = ":" in experiment.model and not experiment.model.startswith(PYTHON)
    return f"model '{experiment.model}'" if named else None


def own_method(experiment: Experiment) -> str | None:
    """The code of the experiment's method, in words; None if the method is a known one."""
    return f"method '{experiment.method.name}'" if ":" in experiment.method.name else None


def own_code(experiment: Experiment) -> list[str]:
    """All code that a run of the experiment imports."""
    return [code for code in (own_model(experiment), own_method(experiment)) if code is not None]


def without_method(experiment: Experiment) -> Experiment:
    """A complete experiment for those who need its data and its model only: no method's code is imported for it."""
    return experiment.but(method="fedavg")


def check_trusted(run: Path, experiment: Experiment, trust: bool) -> None:
    """Refuse to build the model of a stored run by code that the caller has not said to trust; say what is run."""
    code = own_model(experiment)
    if code is None:
        return
    if not trust:
        raise UserError(
            f"run '{run}' names code, {code}, which is not run unasked; accepted: --trust (in Python trust=True) if "
            "you trust it, or in Python the model itself as model="
        )
    say_code([code])


def say_code(code: Sequence[str]) -> None:
    """One line on stderr, before it is imported."""
    if code:
        print(one_line(f"runs code: {', '.join(code)}"), file=sys.stderr)
