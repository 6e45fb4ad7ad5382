"""From an experiment to everything a run needs: data, partition, model, method, all checked before anything is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import nn

from fedtrip.data import load_dataset
from fedtrip.data.dataset import DataSet
from fedtrip.data.normalisation import normalisation
from fedtrip.errors import UserError
from fedtrip.experiment.complete import CompleteExperiment, DataFacts, complete
from fedtrip.experiment.compute import decide
from fedtrip.experiment.description import PYTHON, DecidedCompute, Experiment
from fedtrip.experiment.rules import Rules, make_rules
from fedtrip.methods.interface import Method
from fedtrip.models import build_model, check_model
from fedtrip.models.check import trains_on_one_sample
from fedtrip.models.representation import Tap
from fedtrip.one_thread import one_thread
from fedtrip.partitions.interface import Partition, make_partition
from fedtrip.randomness import torch_seed
from fedtrip.tasks.interface import Task
from fedtrip.vectors import state_sha256

ModelSource = nn.Module | Callable[[], nn.Module]


@dataclass(frozen=True)
class Federation:
    """A complete experiment and the objects it describes."""

    experiment: CompleteExperiment
    dataset: DataSet
    partition: Partition
    module: nn.Module
    rules: Rules

    @property
    def method(self) -> Method:
        """The method, the rule that most of the work is about."""
        return self.rules.method

    def lr(self, t: int) -> float:
        """η of round t."""
        return self.experiment.lr * self.rules.lr_schedule(t, self.experiment.rounds)


@dataclass(frozen=True)
class PackedFederation:
    """A federation without its data, which travel in another way: what another process or machine is handed."""

    experiment: CompleteExperiment
    module: nn.Module
    rules: Rules

    @classmethod
    def of(cls, federation: Federation) -> Self:
        """Pack a federation."""
        return cls(federation.experiment, federation.module, federation.rules)

    def with_data(self, dataset: DataSet) -> Federation:
        """The federation again."""
        return Federation(self.experiment, dataset, partition_of(self.experiment, dataset), self.module, self.rules)


@one_thread()
def prepare(
    experiment: Experiment,
    *,
    model: ModelSource | None = None,
    data: DataSet | None = None,
    data_dir: Path | str | None = None,
    progress: bool = False,
    loaded: DataSet | None = None,
) -> Federation:
    """Load, build and check everything; the federation's experiment has every default filled in.

    `loaded` is the experiment's named data set if the caller has loaded it before.
    """
    # Objects given from Python replace the names, so that no default of a named model or data set is theirs.
    named = experiment.but(
        model=PYTHON if model is not None else experiment.model,
        dataset=PYTHON if data is not None else experiment.dataset,
    )
    rules = make_rules(named)  # first, because it costs nothing
    dataset = loaded or _dataset(experiment, rules.task, data, None if data_dir is None else Path(data_dir), progress)
    rules.task.check(dataset.y_train)
    module, model_name = _module(experiment, rules.task, dataset, model)
    if rules.method.needs_representation:
        Tap(module, experiment.representation).remove()
    compute = decide_for(experiment, rules, module, dataset)
    whole = complete(named, rules, DataFacts.of(dataset), compute).but(
        model=model_name, dataset=PYTHON + dataset.sha256() if data is not None else _absolute(experiment.dataset)
    )
    partition = partition_of(whole, dataset)
    _check_last_batches(whole, partition, module, dataset.sample_shape)
    return Federation(whole, dataset, partition, module, rules)


def decide_for(experiment: Experiment, rules: Rules, module: nn.Module, dataset: DataSet) -> DecidedCompute:
    """What computes this experiment; see `fedtrip.experiment.compute`."""
    return decide(
        experiment.compute,
        module,
        dataset.sample_shape,
        tapped=rules.method.needs_representation,
        representation=experiment.representation,
    )


def partition_of(experiment: CompleteExperiment, dataset: DataSet) -> Partition:
    """The partition of a complete experiment."""
    return make_partition(
        experiment.partition,
        draw=experiment.draw,
        labels=dataset.y_train,
        classes=dataset.classes,
        clients=experiment.clients,
        samples_per_client=experiment.samples_per_client or 1,  # without meaning where the data come split
        seed=experiment.seed,
        client_train=dataset.client_train,
    )


def _check_last_batches(
    experiment: CompleteExperiment, partition: Partition, module: nn.Module, sample_shape: tuple[int, ...]
) -> None:
    """Refuse a last batch of one sample where the module cannot train on it, as BatchNorm cannot."""
    some = range(partition.clients) if experiment.samples_per_client is None else range(1)  # equal shares: one is all
    single = next((k for k in some if (partition.samples(k) - 1) % experiment.batch_size == 0), None)
    if single is not None and not trains_on_one_sample(module, sample_shape):
        raise UserError(
            f"batch_size is {experiment.batch_size}: client {single} has {partition.samples(single)} samples, so its "
            "last batch is a single one, on which the model cannot be trained (BatchNorm); accepted: a batch_size that "
            "leaves none or more than one"
        )


def _absolute(dataset: str) -> str:
    """A file or folder of the user's own by its whole path, so that a stored experiment finds it from anywhere."""
    kind, colon, path = dataset.partition(":")
    return f"{kind}:{Path(path).expanduser().absolute()}" if colon and kind in ("npz", "idx") else dataset


def _dataset(
    experiment: Experiment, task: Task, data: DataSet | None, data_dir: Path | None, progress: bool
) -> DataSet:
    demanded = experiment.dataset.removeprefix(PYTHON) if experiment.dataset.startswith(PYTHON) else None
    if data is None:
        if demanded is not None:
            raise UserError(f"dataset is a Python object with SHA-256 {demanded}; accepted: give it again as data=")
        return load_dataset(
            experiment.dataset,
            data_dir,
            mean=experiment.mean,
            std=experiment.std,
            progress=progress,
            numbers=task.targets == "numbers",
        )
    if experiment.mean is not None and experiment.std is not None:
        mean, std = normalisation(data.x_train, experiment.mean, experiment.std)
        data = replace(data, mean=mean, std=std)
    if demanded is not None and data.sha256() != demanded:  # the digest covers the normalisation
        raise UserError(f"data has SHA-256 {data.sha256()}; accepted: the one of the experiment, {demanded}")
    return data


def _module(experiment: Experiment, task: Task, dataset: DataSet, model: ModelSource | None) -> tuple[nn.Module, str]:
    outputs = task.outputs(dataset.classes)
    demanded = experiment.model.removeprefix(PYTHON) if experiment.model.startswith(PYTHON) else None
    if model is None:
        if demanded is not None:
            raise UserError(f"model is a Python object with SHA-256 {demanded}; accepted: give it again as model=")
        built = build_model(experiment.model, dataset.sample_shape, outputs, experiment.seed, flat=task.flat_outputs)
        return built, experiment.model
    if isinstance(model, nn.Module):
        module = model
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(experiment.seed, "model"))
            module = model()
    check_model(module, dataset.sample_shape, outputs, flat=task.flat_outputs)
    digest = state_sha256(module.state_dict())
    if demanded is not None and digest != demanded:
        raise UserError(f"model has SHA-256 {digest}; accepted: the one of the experiment, {demanded}")
    return module, PYTHON + digest
