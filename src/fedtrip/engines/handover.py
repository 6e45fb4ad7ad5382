"""A federation handed to another process: the data through shared memory, the rest by value."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.data.dataset import DataSet
from fedtrip.data.mapped import FileSpan
from fedtrip.engines.shared import Layout, SharedBlock
from fedtrip.experiment.federation import Federation, PackedFederation
from fedtrip.inputs import InputSpec, tensors_of

_INPUTS, _OTHERS = ("x_train", "x_test", "test_inputs"), ("y_train", "y_test", "client_train", "client_test")


@dataclass(frozen=True)
class SharedData:
    """A data set whose arrays lie in shared memory or in files, each input of several under its own name."""

    descriptor: int
    layout: Layout
    files: dict[str, FileSpan]
    """the arrays that lie in files: each process maps them itself"""
    inputs: InputSpec
    name: str
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def share_data(dataset: DataSet, block: SharedBlock) -> SharedData:
    """Copy a data set's arrays into shared memory, once for all processes; those that lie in files stay there."""
    dataset = dataset.with_test_inputs()
    arrays = {name: getattr(dataset, name) for name in _OTHERS if getattr(dataset, name) is not None}
    for name in _INPUTS:
        arrays |= {f"{name} {part}": tensor for part, tensor in enumerate(tensors_of(getattr(dataset, name)))}
    files = {name: span for name, tensor in arrays.items() if (span := dataset.file_of(tensor)) is not None}
    layout = block.write({name: tensor for name, tensor in arrays.items() if name not in files})
    spec = InputSpec.of(dataset.x_train)
    return SharedData(block.descriptor, layout, files, spec, dataset.name, dataset.classes, dataset.mean, dataset.std)


def shared_dataset(shared: SharedData) -> DataSet:
    """The data set again, its arrays views of the shared memory."""
    arrays = SharedBlock(shared.descriptor).read(shared.layout)
    arrays |= {name: span.tensor() for name, span in shared.files.items()}
    parts = range(len(shared.inputs.parts))
    inputs = {name: shared.inputs.together([arrays[f"{name} {part}"] for part in parts]) for name in _INPUTS}
    return DataSet(
        shared.name,
        inputs["x_train"],
        arrays["y_train"],
        inputs["x_test"],
        arrays["y_test"],
        shared.classes,
        shared.mean,
        shared.std,
        client_train=arrays.get("client_train"),
        client_test=arrays.get("client_test"),
        test_inputs=inputs["test_inputs"],
    )


@dataclass(frozen=True)
class Handover:
    """What another process of this machine needs to do a federation's work."""

    packed: PackedFederation
    data: SharedData

    def federation(self) -> Federation:
        """The federation, its arrays in the shared memory: no process has a copy of its own."""
        return self.packed.with_data(shared_dataset(self.data))
