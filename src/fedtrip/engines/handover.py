"""A federation handed to another process: the data through shared memory, the rest by value."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.data.dataset import DataSet
from fedtrip.engines.shared import Layout, SharedBlock
from fedtrip.experiment.federation import Federation, PackedFederation

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
    """What another process of this machine needs to do a federation's work."""

    packed: PackedFederation
    data: SharedData

    def federation(self) -> Federation:
        """The federation, its arrays in the shared memory: no process has a copy of its own."""
        return self.packed.with_data(shared_dataset(self.data))
