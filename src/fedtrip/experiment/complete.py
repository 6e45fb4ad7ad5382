"""Completing an experiment: every default that depends on data, model or method, filled in at one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from fedtrip.combining.interface import Plan
from fedtrip.data.dataset import DataSet
from fedtrip.errors import UserError
from fedtrip.experiment.defaults import default_samples, default_target, shared_samples
from fedtrip.experiment.description import Count, DecidedCompute, Experiment, Finite, Rate
from fedtrip.experiment.rules import Rules
from fedtrip.tasks.interface import ACCURACY, Task

CLIENTS, PER_ROUND, PARTITION, WITHOUT_CLASSES = 10, 4, "dirichlet:0.5", "iid"
"""The setting of most of the paper's runs, and the partition where there are no classes to divide by."""


class CompleteExperiment(Experiment):
    """An experiment in which nothing is left open: what its run reads, and what a run folder stores."""

    mean: tuple[Finite, ...]
    std: tuple[Rate, ...]
    partition: str
    clients: Count
    per_round: Count
    momentum: float
    compute: DecidedCompute

    @property
    def plan(self) -> Plan:
        """How many clients are to take part, and how often."""
        return Plan(self.clients - self.unseen_clients, self.per_round, self.rounds)

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """The same fields, of an experiment that has them all."""
        return cls(**{name: getattr(experiment, name) for name in Experiment.model_fields})


@dataclass(frozen=True)
class DataFacts:
    """What the defaults depend on: what is known of the data without looking at a single sample."""

    samples: int | None
    """training samples in all; None if they are the clients' own"""
    clients: int | None
    """how many clients the data come split into; None if they are not"""
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, dataset: DataSet) -> Self:
        """The facts of a loaded data set."""
        return cls(len(dataset.y_train), dataset.clients, dataset.mean, dataset.std)


def complete(
    experiment: Experiment, rules: Rules, data: DataFacts, compute: DecidedCompute
) -> tuple[CompleteExperiment, Rules]:
    """The experiment with every default that depends on data, model or method filled in, and its rules.

    `compute` is decided.
    """
    split = data.clients
    clients = experiment.clients or split or CLIENTS
    if split is not None and clients != split:
        raise UserError(f"clients is {clients}; accepted: {split}, as the data come split")
    seen = clients - experiment.unseen_clients
    if seen < 1:
        raise UserError(f"unseen_clients is {experiment.unseen_clients}; accepted: fewer than the {clients} clients")
    if experiment.per_round is not None and experiment.per_round > seen:
        told = "the number of clients" if seen == clients else "the number of clients that take part"
        raise UserError(f"per_round is {experiment.per_round}; accepted: at most {told}, {seen}")
    if split is not None and experiment.samples_per_client is not None:
        raise UserError("samples_per_client has no meaning: the data come split; accepted: leave it out")
    target = _target(experiment, rules.task)
    if experiment.stop_at_target and target is None:
        raise UserError("stop_at_target needs a target, which this data set has none of; accepted: give a target too")
    per_round = experiment.per_round or min(PER_ROUND, seen)
    rules.combine.check(per_round)
    rules = replace(rules, combine=rules.combine.as_planned(Plan(seen, per_round, experiment.rounds)))
    partition = experiment.partition or _partition(split is not None, rules.task)
    if split is not None or data.samples is None:
        samples = None
    else:
        shared = shared_samples(experiment, data.samples)
        samples = experiment.samples_per_client or default_samples(experiment.dataset, shared, clients, partition)
    whole = CompleteExperiment.of(
        experiment.but(
            partition=partition,
            clients=clients,
            per_round=per_round,
            samples_per_client=samples,
            mean=data.mean,
            std=data.std,
            momentum=rules.momentum,
            target=target,
            compute=compute,
            **rules.choices(),
        )
    )
    return whole, rules


def _target(experiment: Experiment, task: Task) -> float | None:
    """The target; by default the paper's, where the goal is the paper's."""
    if experiment.target is None:
        return default_target(experiment.dataset, experiment.model) if task.goal == ACCURACY else None
    try:
        task.goal.check_target(experiment.target)
    except ValueError as problem:
        raise UserError(str(problem)) from None
    return experiment.target


def _partition(is_split: bool, task: Task) -> str:
    """The partition, if nothing was said."""
    if is_split:
        return "given"
    return PARTITION if task.targets == "classes" else WITHOUT_CLASSES
