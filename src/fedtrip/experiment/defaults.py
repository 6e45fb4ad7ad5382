"""Defaults that depend on the data set, the model and the method: what their own entries recommend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.families import METHOD, OPTIMIZER, PARTITION
from fedtrip.methods.interface import Method, make_method
from fedtrip.partitions.interface import divides
from fedtrip.registry import Choice, option_fields, options_of

SAMPLES_FOLLOW = ("dataset", "partition", "clients", "validation", "validation_at")
"""The fields that the default of `samples_per_client` depends on."""


def default_samples(dataset: str, samples: int, clients: int, partition: str) -> int:
    """Samples a client, if nothing was said: the paper's, or an equal part of all.

    Of a partition that divides the training set so many that nothing of it is left over.
    """
    if divides(partition):
        return -(-samples // clients)
    known = KNOWN_SETS.get(dataset)
    return known.samples_per_client if known is not None else max(1, samples // clients)


def shared_samples(experiment: Experiment, samples: int) -> int:
    """How many of the training samples are the clients': what the server validates on is nobody's."""
    return int(samples * (1 - experiment.validation)) if experiment.validation_at == "server" else samples


def default_target(dataset: str, model: str) -> float | None:
    """The score to reach, if nothing was said: what the data set's entry recommends; None for other data."""
    known = KNOWN_SETS.get("emnist" if dataset == "emnist:balanced" else dataset)
    return None if known is None else known.targets.get(model, known.target)


def changed(base: Experiment, **changes: Any) -> Experiment:
    """The experiment with some fields changed, as one means it when the experiment is a stored, complete one.

    There every default is written out. Values that are no more than the defaults of the old method, model, data set or
    partition are left open when that changes, so that the new one's take their place. A method that is given is taken
    as it is: whoever changes single options of the old one begins with its `chosen_options`.
    """
    base = Experiment(
        **{name: getattr(base, name) for name in base.model_fields_set}
    )  # of a complete one, as any other
    new = base.but(**changes)
    left_open: dict[str, Any] = {}
    other_rules = (new.method.name, new.optimizer.name) != (base.method.name, base.optimizer.name)
    if other_rules and base.momentum == _momentum_of(base):
        left_open["momentum"] = None
    if new.dataset != base.dataset:
        left_open |= {"mean": None, "std": None}
    if any(getattr(new, name) != getattr(base, name) for name in SAMPLES_FOLLOW) and _has_default_samples(base):
        left_open["samples_per_client"] = None
    elsewhere = (new.dataset, new.model) != (base.dataset, base.model)
    if (elsewhere or new.task != base.task) and base.target == default_target(base.dataset, base.model):
        left_open["target"] = None
    if elsewhere:
        left_open["method"] = Choice(base.method.name, chosen_options(base))
    return new.but(**{name: value for name, value in left_open.items() if name not in changes})


def _has_default_samples(base: Experiment) -> bool:
    """Whether a complete experiment has the samples a client that it says if nothing was said."""
    known = KNOWN_SETS.get(base.dataset)
    if known is None or base.clients is None or base.partition is None:
        return False
    if PARTITION.read(base.partition).name not in PARTITION.names():  # code of the user's own, not run for this
        return base.samples_per_client == known.samples_per_client
    shared = shared_samples(base, known.train)
    return base.samples_per_client == default_samples(base.dataset, shared, base.clients, base.partition)


def _momentum_of(experiment: Experiment) -> float:
    """The momentum that a complete experiment says if nothing was said."""
    has_one = any(field.name == "momentum" for field in option_fields(OPTIMIZER.find(experiment.optimizer.name)))
    return default_momentum(experiment.method.name) if has_one else 0.0


def default_momentum(method: str) -> float:
    """The momentum of local SGD that a method has if nothing is said."""
    cls = METHOD.find(method)
    assert issubclass(cls, Method)
    return cls.momentum


def chosen_options(experiment: Experiment) -> dict[str, Any]:
    """The method's options without those that are no more than the defaults which the others bring."""

    def complete(options: Mapping[str, Any]) -> dict[str, Any]:
        name = experiment.method.name
        return options_of(make_method(name, options, model=experiment.model, dataset=experiment.dataset))

    def says_nothing(without: Mapping[str, Any]) -> bool:
        try:
            return complete(without) == complete(chosen)
        except UserError:  # it has no default
            return False

    chosen = dict(experiment.method.options)
    for name in experiment.method.options:
        without = {other: value for other, value in chosen.items() if other != name}
        if says_nothing(without):
            chosen = without
    return chosen
