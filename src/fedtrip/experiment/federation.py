"""From an experiment to everything a run needs: data, partition, model, method, all checked before anything is run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import nn

from fedtrip.data import load_dataset
from fedtrip.data.dataset import DataSet
from fedtrip.data.normalisation import normalisation
from fedtrip.data.sources import source_of
from fedtrip.errors import UserError
from fedtrip.experiment.complete import CompleteExperiment, DataFacts, complete
from fedtrip.experiment.compute import decide, tap_of
from fedtrip.experiment.description import PYTHON, DecidedCompute, Experiment
from fedtrip.experiment.device import checked_device
from fedtrip.experiment.held_out import NOTHING, HeldOut, sample_sets
from fedtrip.experiment.rules import Rules, make_rules
from fedtrip.inputs import InputSpec
from fedtrip.methods.interface import Method
from fedtrip.models import MODELS, build_model, check_model
from fedtrip.models.check import Outputs, trains_on_one_sample
from fedtrip.models.representation import check_hidden, check_representation
from fedtrip.one_thread import one_thread
from fedtrip.partitions.interface import Partition, sizes_of
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
    held_out: HeldOut = NOTHING
    """samples that nobody trains on"""

    @property
    def method(self) -> Method:
        """The method, the rule that most of the work is about."""
        return self.rules.method

    def in_detail(self) -> Federation:
        """The same with a task that knows every score."""
        return replace(self, rules=replace(self.rules, task=self.rules.task.in_detail()))

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
        sets = sample_sets(self.experiment, dataset)
        return Federation(self.experiment, dataset, sets.partition, self.module, self.rules, sets.held_out)


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
    checked_device(experiment.device)
    given = loaded or _dataset(experiment, rules.task, data, None if data_dir is None else Path(data_dir), progress)
    rules.task.check(given.y_train)
    rules.task.check_classes(given.classes)
    module, model_name, dataset = _module(experiment, rules.task, given, model)
    rules.augment.check(dataset.inputs)
    check_looks(experiment, rules.method, module, dataset.inputs)
    compute = decide_for(experiment, rules, module, dataset)
    whole = complete(named, rules, DataFacts.of(dataset), compute).but(
        model=model_name, dataset=PYTHON + given.sha256() if data is not None else _absolute(experiment.dataset)
    )
    sets = sample_sets(whole, dataset)
    _check_last_batches(whole, sets.partition, module, dataset.inputs)
    return Federation(whole, dataset, sets.partition, module, rules, sets.held_out)


def check_looks(experiment: Experiment, method: Method, module: nn.Module, inputs: InputSpec) -> None:
    """Refuse a module that has not what the method looks at in training, by the method's name."""
    try:
        if method.needs_representation:
            check_representation(module, inputs, experiment.representation)
        if method.needs_hidden:
            check_hidden(module, inputs)
    except UserError as problem:
        raise UserError(f"method '{experiment.method.name}': {problem}") from None


def decide_for(experiment: Experiment, rules: Rules, module: nn.Module, dataset: DataSet) -> DecidedCompute:
    """What computes this experiment; see `fedtrip.experiment.compute`."""
    tapped, representation = tap_of(rules.method, module, experiment.representation)
    return decide(
        experiment.compute,
        module,
        dataset.inputs,
        tapped=tapped,
        representation=representation,
        device=experiment.device,
    )


def _check_last_batches(
    experiment: CompleteExperiment, partition: Partition, module: nn.Module, inputs: InputSpec
) -> None:
    """Refuse a last batch of one sample where the module cannot train on it, as BatchNorm cannot."""
    sizes = sizes_of(partition, experiment.partition)
    single = next((k for k, samples in enumerate(sizes) if (samples - 1) % experiment.batch_size == 0), None)
    if single is not None and not trains_on_one_sample(module, inputs):
        raise UserError(
            f"batch_size is {experiment.batch_size}: client {single} has {sizes[single]} samples, so its "
            "last batch is a single one, on which the model cannot be trained (BatchNorm); accepted: "
            + ("a model without BatchNorm" if sizes[single] == 1 else "a batch_size that leaves none or more than one")
        )


def _absolute(dataset: str) -> str:
    """A file or folder of the user's own by its whole path, so that a stored experiment finds it from anywhere."""
    source = source_of(dataset)
    return dataset if source is None else source.absolute()


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
            targets=task.targets,
        )
    if experiment.mean is not None and experiment.std is not None:
        mean, std = normalisation(data.x_train, experiment.mean, experiment.std)
        data = replace(data, mean=mean, std=std)
    if demanded is not None and data.sha256() != demanded:  # the digest covers the normalisation
        raise UserError(f"data has SHA-256 {data.sha256()}; accepted: the one of the experiment, {demanded}")
    return data


def _module(
    experiment: Experiment, task: Task, dataset: DataSet, model: ModelSource | None
) -> tuple[nn.Module, str, DataSet]:
    """The module, its name in the experiment, and the data set in the shape in which the module takes it."""
    demanded = experiment.model.removeprefix(PYTHON) if experiment.model.startswith(PYTHON) else None
    if model is None:
        if demanded is not None:
            raise UserError(f"model is a Python object with SHA-256 {demanded}; accepted: give it again as model=")
        built, dataset = built_model(experiment, task, dataset)
        return built, experiment.model, dataset
    if isinstance(model, nn.Module):
        module = model
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(experiment.seed, "model"))
            module = model()
    dataset = fitting(dataset, lambda inputs: check_model(module, inputs, wanted_outputs(task, dataset)))
    digest = state_sha256(module.state_dict())
    if demanded is not None and digest != demanded:
        raise UserError(f"model has SHA-256 {digest}; accepted: the one of the experiment, {demanded}")
    return module, PYTHON + digest, dataset


def built_model(experiment: Experiment, task: Task, dataset: DataSet) -> tuple[nn.Module, DataSet]:
    """The module that the experiment names, and the data set in the shape in which it takes it."""
    name = experiment.model
    built: list[nn.Module] = []

    def build(inputs: InputSpec) -> None:
        built.append(build_model(name, inputs, wanted_outputs(task, dataset), experiment.seed))

    if name in MODELS and len(dataset.inputs.parts[0][1]) == 2 and dataset.inputs.is_numbers:
        dataset = dataset.with_channel()
    dataset = fitting(dataset, build)
    return built[-1], dataset


def wanted_outputs(task: Task, dataset: DataSet) -> Outputs:
    """What the task wants of a model."""
    y = dataset.y_train if len(dataset.y_train) else dataset.y_test
    shape = task.output_shape(dataset.classes, y)
    count = shape[-1] if shape else task.outputs(dataset.classes)
    return Outputs(count, shape, may_be_flat=task.flat_outputs)


def fitting(dataset: DataSet, tried: Callable[[InputSpec], None]) -> DataSet:
    """The data set as the model takes it: as it is; or numbers (n, H, W) as images of one channel, if only they fit."""
    try:
        tried(dataset.inputs)
    except UserError:
        if not dataset.inputs.is_numbers or len(dataset.inputs.shape) != 2:
            raise
        images = dataset.with_channel()
        with suppress(UserError):
            tried(images.inputs)
            return images
        raise
    return dataset
