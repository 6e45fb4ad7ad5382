"""Data that a user gives from Python."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from fedtrip.data import from_arrays
from fedtrip.data.dataset import DataSet
from fedtrip.errors import UserError, unknown_name
from fedtrip.experiment.description import Experiment
from fedtrip.families import TASK
from fedtrip.tasks.interface import Task

Data = DataSet | Mapping[str, Any] | Sequence[Any]


def as_dataset(data: Data, experiment: Experiment) -> DataSet:
    """A `DataSet` from what a user gives; the experiment's task says whether its targets are classes or numbers."""
    if isinstance(data, DataSet):
        return data
    task = TASK.find(experiment.task.name)
    assert issubclass(task, Task)
    classes = 0 if task.targets == "numbers" else None
    if isinstance(data, Mapping):
        known = inspect.signature(from_arrays).parameters
        for name in data:
            if name not in known:
                raise unknown_name("data", str(name), known)
        missing = [name for name, p in known.items() if p.default is p.empty and name not in data]
        if missing:
            raise UserError(f"data lacks {', '.join(missing)}; accepted: x_train, y_train, x_test and y_test")
        return from_arrays(**{"classes": classes, **data})
    if len(data) != 4:
        raise UserError(f"data has {len(data)} parts; accepted: a DataSet, or x_train, y_train, x_test, y_test")
    return from_arrays(*data, classes=classes)
