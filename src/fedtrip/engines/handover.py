"""A federation handed to another process: the data through shared memory, the rest by value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from fedtrip.data.dataset import DataSet
from fedtrip.engines.shared import Layout, SharedBlock
from fedtrip.experiment.complete import CompleteExperiment
from fedtrip.experiment.federation import Federation, partition_of
from fedtrip.experiment.rules import Rules

_ARRAYS = ("x_train", "y_train", "x_test", "y_test", "client_train", "test_inputs")


@dataclass(frozen=True)
class SharedData:
    """A data set whose arrays lie in shared memory."""

    descriptor: int
    layout: Layout
    name: str
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def share_data(dataset: DataSet, block: SharedBlock) -> SharedData:
    """Copy a data set's arrays into shared memory, once for all processes."""
    dataset = dataset.with_test_inputs()
    arrays = {name: getattr(dataset, name) for name in _ARRAYS if getattr(dataset, name) is not None}
    layout = block.write(arrays)
    return SharedData(block.descriptor, layout, dataset.name, dataset.classes, dataset.mean, dataset.std)


def shared_dataset(shared: SharedData) -> DataSet:
    """The data set again, its arrays views of the shared memory."""
    arrays = SharedBlock(shared.descriptor).read(shared.layout)
    return DataSet(name=shared.name, classes=shared.classes, mean=shared.mean, std=shared.std, **arrays)


@dataclass(frozen=True)
class Handover:
    """What another process needs to do this federation's work."""

    experiment: CompleteExperiment
    module: nn.Module
    rules: Rules
    data: SharedData

    def federation(self, dataset: DataSet | None = None) -> Federation:
        """The federation, in the process that received it."""
        dataset = dataset or shared_dataset(self.data)
        return Federation(self.experiment, dataset, partition_of(self.experiment, dataset), self.module, self.rules)


def handover(federation: Federation, data: SharedData) -> Handover:
    """Pack a federation whose data are shared."""
    return Handover(federation.experiment, federation.module, federation.rules, data)


def on_shared_data(federation: Federation, data: SharedData) -> Federation:
    """The federation with its arrays in the shared memory too, so that no second copy is needed."""
    dataset = shared_dataset(data)
    return replace(federation, dataset=dataset, partition=partition_of(federation.experiment, dataset))
