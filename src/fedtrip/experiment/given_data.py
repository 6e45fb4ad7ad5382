"""Data that a user gives from Python."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from fedtrip.data import from_arrays, from_datasets, load_dataset
from fedtrip.data.arrays import as_inputs
from fedtrip.data.dataset import DataSet
from fedtrip.data.targets import as_targets, counted
from fedtrip.data.torch_datasets import is_datasets
from fedtrip.errors import UserError, shortened, unknown_name
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation
from fedtrip.families import TASK
from fedtrip.inputs import count_of
from fedtrip.targets import TargetKind
from fedtrip.tasks.interface import Task

Data = DataSet | Mapping[str, Any] | Sequence[Any]
ACCEPTED = "a DataSet, x_train, y_train, x_test and y_test, or a pair of torch Datasets"
Samples = tuple[Any, Any]
"""Inputs and targets."""


def as_dataset(data: Data, experiment: Experiment) -> DataSet:
    """A `DataSet` from what a user gives; the experiment's task says what its targets are."""
    if isinstance(data, DataSet):
        return data
    task = TASK.find(experiment.task.name)
    assert issubclass(task, Task)
    if isinstance(data, Dataset):
        raise UserError("data is one torch Dataset; accepted: a pair of them, for training and test")
    if isinstance(data, str):
        raise UserError(f"data is '{shortened(data)}'; accepted: {ACCEPTED}; a name goes into Experiment(dataset=...)")
    if isinstance(data, Mapping):
        if any(map(is_datasets, data.values())):
            return _from_named_datasets(data, task.targets)
        known = inspect.signature(from_arrays).parameters
        for name in data:
            if name not in known:
                raise unknown_name("data", str(name), known)
        missing = [name for name, p in known.items() if p.default is p.empty and name not in data]
        if missing:
            raise UserError(f"data lacks {', '.join(missing)}; accepted: x_train, y_train, x_test and y_test")
        return from_arrays(**{"targets": task.targets, **data})
    if not isinstance(data, Sequence):
        raise UserError(f"data is {shortened(repr(data))}; accepted: {ACCEPTED}")
    if len(data) == 2 and is_datasets(data[0]):
        return from_datasets(*data, targets=task.targets)
    if len(data) != 4:
        raise UserError(f"data has {len(data)} parts; accepted: {ACCEPTED}")
    return from_arrays(*data, targets=task.targets)


def _from_named_datasets(data: Mapping[str, Any], targets: TargetKind) -> DataSet:
    known = inspect.signature(from_datasets).parameters
    for name in data:
        if name not in known:
            raise unknown_name("data", str(name), known)
    if missing := [name for name in ("train", "test") if name not in data]:
        raise UserError(f"data lacks {missing[0]}; accepted: the torch Datasets train and test")
    return from_datasets(**{"targets": targets, **data})


def tested_on(federation: Federation, on: str | Samples | DataSet, data_dir: Path | None) -> Federation:
    """The federation with other test samples: of a data set by its name, or given; normalised as its own."""
    task, own = federation.rules.task, federation.dataset
    if isinstance(on, tuple):
        x = as_inputs("x", on[0])
        y = as_targets("y", on[1], count_of(x), task.targets)
    else:
        other = load_dataset(on, data_dir, targets=task.targets) if isinstance(on, str) else on
        x, y = other.x_test, other.y_test
        _check_names(other, own)
    task.check(y)
    other_inputs = replace(own, x_train=x, x_test=x)
    if other_inputs.inputs != own.inputs and other_inputs.inputs.is_numbers and len(other_inputs.inputs.shape) == 2:
        other_inputs = other_inputs.with_channel()
    if other_inputs.inputs.parts != own.inputs.parts:
        raise UserError(f"the samples to test on have {other_inputs.inputs}; accepted: {own.inputs}, as the run's own")
    found = counted(y, y, task.targets, None)
    if own.classes and found > own.classes:
        raise UserError(f"the targets to test on go up to {found - 1}; accepted: 0 to {own.classes - 1}")
    tested = replace(own, x_test=other_inputs.x_test, y_test=y, client_test=None, test_inputs=None)
    return replace(federation, dataset=tested)


def _check_names(other: DataSet, own: DataSet) -> None:
    """The numbers of classes and the columns of a table mean the same in both."""
    for what, mine, theirs in (
        ("classes", own.class_names, other.class_names),
        ("columns", own.input_names, other.input_names),
    ):
        if mine != theirs:
            raise UserError(
                f"the samples to test on have the {what} {shortened(', '.join(theirs)) or 'without names'}; accepted: "
                f"those of the run, {shortened(', '.join(mine)) or 'without names'}; a file of the same data can be "
                "named by test= beside the run's own"
            )
