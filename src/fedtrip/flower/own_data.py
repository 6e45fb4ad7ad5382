"""Federations whose samples are the nodes' own: a node knows only its client's, the server only the test set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedtrip.data.arrays import Arrays, as_inputs
from fedtrip.data.dataset import DataSet
from fedtrip.data.normalisation import normalisation
from fedtrip.data.targets import as_targets, counted
from fedtrip.data.values import Array
from fedtrip.errors import UserError
from fedtrip.experiment.complete import CompleteExperiment, DataFacts, complete
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, built_model, check_looks, decide_for
from fedtrip.experiment.rules import Rules, make_rules
from fedtrip.families import TASK
from fedtrip.inputs import Inputs, count_of, sliced
from fedtrip.registry.imports import import_object
from fedtrip.targets import kind_of

NODES = "nodes"
"""The `dataset` of an experiment whose samples are the nodes' own."""


@dataclass(frozen=True)
class EverySample:
    """The partition of one client's own samples: all of them, whichever client it is."""

    clients: int
    count: int

    def samples(self, client: int) -> int:  # noqa: ARG002
        return self.count

    def share(self, client: int) -> Tensor:  # noqa: ARG002
        return torch.arange(self.count)


def samples_of(spec: str, config: Mapping[str, Any], experiment: Experiment) -> tuple[Inputs, Tensor]:
    """The inputs and targets that the user's function gives; it is called with the node's (or the run's) settings."""
    load: Callable[[Mapping[str, Any]], tuple[Arrays, Array]] = import_object(spec, "data")
    loaded = load(config)
    if not isinstance(loaded, tuple) or len(loaded) != 2:
        raise UserError(f"data '{spec}' returned a {type(loaded).__name__}; accepted: a pair of inputs and labels")
    x = as_inputs("inputs", loaded[0])
    return x, as_targets("labels", loaded[1], count_of(x), TASK.make(experiment.task).targets)


def server_federation(experiment: Experiment, test: tuple[Inputs, Tensor]) -> Federation:
    """What the server needs: the complete experiment, the model and the test set. No training sample is there."""
    x_test, y_test = test
    if experiment.clients is None or experiment.mean is None:
        raise UserError(
            f"dataset '{NODES}' needs clients, mean and std in the experiment: nobody can measure them over all nodes"
        )
    for name in ("validation", "client_test", "eval_clients"):
        if getattr(experiment, name):
            raise UserError(
                f"{name} is {getattr(experiment, name)}, but the samples of dataset '{NODES}' are the nodes' own, and "
                "none of them is held out here; accepted: leave it out"
            )
    rules = make_rules(experiment)
    facts = DataFacts(samples=None, clients=experiment.clients, mean=experiment.mean, std=experiment.std or ())
    classes = counted(y_test, y_test, rules.task.targets, None)
    rules.task.check(y_test)
    rules.task.check_classes(classes)
    dataset = _dataset(experiment, sliced(x_test, slice(0)), y_test[:0], x_test, y_test, classes)
    module, dataset = _module(experiment, rules, dataset)
    whole = complete(experiment, rules, facts, decide_for(experiment, rules, module, dataset))
    return Federation(whole, dataset, EverySample(whole.clients, 0), module, rules)


def node_federation(experiment: Experiment, own: tuple[Inputs, Tensor], classes: int, inputs: str) -> Federation:
    """What a node needs: the complete experiment, the model and its client's samples, which must be such `inputs`."""
    x, y = own
    if classes and kind_of(y) != "labels" and int(y.max()) >= classes:
        raise UserError(f"the node's labels go up to {int(y.max())}; accepted: 0 to {classes - 1}")
    whole = CompleteExperiment.of(experiment)
    rules, dataset = make_rules(whole), _dataset(whole, x, y, sliced(x, slice(0)), y[:0], classes)
    module, dataset = _module(whole, rules, dataset)
    if str(dataset.inputs) != inputs:
        raise UserError(f"the node's samples have {dataset.inputs}; accepted: {inputs}")
    decide_for(whole, rules, module, dataset)  # refused if this node cannot compute as the server decided
    return Federation(whole, dataset, EverySample(whole.clients, len(y)), module, rules)


def _dataset(
    experiment: Experiment, x_train: Inputs, y_train: Tensor, x_test: Inputs, y_test: Tensor, classes: int
) -> DataSet:
    mean, std = normalisation(x_train, experiment.mean, experiment.std)
    return DataSet(NODES, x_train, y_train, x_test, y_test, classes, mean, std)


def _module(experiment: Experiment, rules: Rules, dataset: DataSet) -> tuple[nn.Module, DataSet]:
    module, dataset = built_model(experiment, rules.task, dataset)
    rules.augment.check(dataset.inputs)
    check_looks(experiment, rules.method, module, dataset.inputs)
    return module, dataset
