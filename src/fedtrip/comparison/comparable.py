"""Which variants may be compared with each other by their rounds to target: the one place that decides it.

It is decided from the experiments alone, so that stored runs of a user's own method can be judged without its class.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedtrip.experiment.defaults import default_momentum
from fedtrip.experiment.description import Experiment
from fedtrip.families import METHOD

NOT_A_SETTING = {"schema_version", "method", "seed", "snapshot", "stop_at_target", "momentum", "compute"}
"""Fields in which two variants may differ: `compute` changes the rounding alone; of the momentum see
`_momenta_that_matter`."""

Setting = tuple[tuple[str, object], ...]
"""Variants with equal ones may be compared, if they also have the same seeds."""


def settings_of(experiments: Mapping[str, Experiment]) -> dict[str, Setting]:
    """Everything beside the method in which two variants must agree for a speed-up to mean something, by label."""
    momenta = _momenta_that_matter(experiments)
    fields = sorted(Experiment.model_fields.keys() - NOT_A_SETTING)
    return {
        label: (*((name, getattr(experiment, name)) for name in fields), ("momentum", momenta[label]))
        for label, experiment in experiments.items()
    }


def _momenta_that_matter(experiments: Mapping[str, Experiment]) -> dict[str, float | None]:
    """Each variant's momentum where it is a setting; None where it is only the method's own.

    It is a setting for all once a method is there with several. Else a momentum that is not the same for all is a
    method's own if it is its default; of a class that is not ours, any.
    """
    chosen = {label: (experiment.method.name, experiment.momentum) for label, experiment in experiments.items()}
    different = set(chosen.values())
    swept = len({name for name, _ in different}) < len(different)
    if not swept and len({momentum for _, momentum in different}) == 1:
        return dict.fromkeys(chosen)

    def is_own(name: str, momentum: float | None) -> bool:
        return not swept and (name not in METHOD.names() or momentum == default_momentum(name))

    return {label: None if is_own(*choice) else choice[1] for label, choice in chosen.items()}
