"""Which variants may be compared with each other by their rounds to target: the one place that decides it.

It is decided from the experiments alone, so that stored runs of a user's own method can be judged without its class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fedtrip.experiment.defaults import default_momentum
from fedtrip.experiment.description import Experiment
from fedtrip.families import METHOD

NOT_A_SETTING = {"schema_version", "method", "seed", "snapshot", "stop_at_target", "momentum", "compute"}
"""Fields in which two variants may differ: `compute` changes the rounding alone; of the momentum see
`_momenta_that_matter`."""

TUNED = "tuned"
"""What stands in a setting for a value that was chosen for the variant, as its method's options may be."""

Setting = tuple[tuple[str, object], ...]
"""Variants with equal ones may be compared, if they also have the same seeds."""


def settings_of(
    experiments: Mapping[str, Experiment], tuned: Mapping[str, Collection[str]] | None = None
) -> dict[str, Setting]:
    """Everything beside the method in which two variants must agree for a speed-up to mean something, by label.

    `tuned` are the fields of a variant whose values were chosen for it. What was chosen need not agree, but a variant
    that was tuned may only be compared with others that were.
    """
    chosen = tuned or {}
    own = {label: frozenset(chosen.get(label, ())) for label in experiments}
    momenta = _momenta_that_matter({label: one for label, one in experiments.items() if "momentum" not in own[label]})
    fields = sorted(Experiment.model_fields.keys() - NOT_A_SETTING)
    return {
        label: (
            *((name, TUNED if name in own[label] else getattr(experiment, name)) for name in fields),
            ("momentum", momenta.get(label, TUNED)),
            (TUNED, label in chosen),
        )
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
