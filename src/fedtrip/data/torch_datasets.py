"""Data sets from map-style `torch.utils.data.Dataset`: every item is read once, in order, into arrays.

From then on the Dataset is not asked any more, so that no run depends on what its `__getitem__` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from fedtrip.arguments import checked_arguments
from fedtrip.data.arrays import Arrays, from_arrays, from_clients
from fedtrip.data.dataset import DataSet
from fedtrip.data.images import is_image, pixels_of
from fedtrip.data.normalisation import Numbers
from fedtrip.data.values import Array, as_numpy
from fedtrip.errors import UserError
from fedtrip.targets import TargetKind

READ_TWICE = 8
"""So many items are read a second time: one that differs then is random."""
TARGET = "the target"

AnyDataset = Dataset[Any]
Leaves = dict[str, NDArray[Any]]
"""The arrays of one item, by what a message calls them; the last one is its target."""


@checked_arguments(leave=("train", "test", "mean", "std"))
def from_datasets(
    train: AnyDataset | Sequence[AnyDataset],
    test: AnyDataset | Sequence[AnyDataset],
    *,
    name: str = "datasets",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    classes: int | None = None,
    targets: TargetKind | None = None,
) -> DataSet:
    """A data set from map-style torch Datasets, whose items are pairs (x, y).

    `train` is one Dataset, or a list of one for each client; then `test` may be such a list too. x is a tensor, an
    array, a number or a picture, or a tuple or a dict of such, of the same shape in every item; y a number or an array.
    Every item is read once, in order, in this process. What is random in an item would be frozen so, and is refused:
    random changes belong to the experiment's `augment`. The other arguments are those of `from_arrays`.
    """
    if isinstance(train, Sequence) and not isinstance(train, Dataset):
        pairs = [items_of(f"train, client {client}", one) for client, one in enumerate(train)]
        tests = (
            [items_of(f"test, client {client}", one) for client, one in enumerate(test)]
            if isinstance(test, Sequence) and not isinstance(test, Dataset)
            else items_of("test", test)
        )
        return from_clients(pairs, tests, name=name, mean=mean, std=std, classes=classes, targets=targets)
    if isinstance(test, Sequence) and not isinstance(test, Dataset):
        raise UserError("test is a list, but train one Dataset; accepted: a list of each, or one Dataset of each")
    return from_arrays(
        *items_of("train", train),
        *items_of("test", test),
        name=name,
        mean=mean,
        std=std,
        classes=classes,
        targets=targets,
    )


def is_datasets(value: object) -> bool:
    """Whether it is a torch Dataset, or a list of them."""
    if isinstance(value, Dataset):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, Dataset) for one in value)


def items_of(name: str, dataset: object) -> tuple[Arrays, Array]:
    """All items of a Dataset as inputs and targets."""
    if isinstance(dataset, IterableDataset):
        raise UserError(
            f"{name} is an IterableDataset ({type(dataset).__name__}), whose items have no numbers; accepted: a "
            "map-style Dataset, with __len__ and __getitem__"
        )
    if not isinstance(dataset, Dataset) or not hasattr(dataset, "__len__"):
        raise UserError(
            f"{name} is a {type(dataset).__name__}; accepted: a torch.utils.data.Dataset with __len__ and __getitem__"
        )
    count = len(dataset)
    if count == 0:
        raise UserError(f"{name} has no items; accepted: at least one")
    tensors = _tensors_of(dataset)
    if tensors is not None and len(tensors) == 2:
        return tensors[0], tensors[1]
    return _read_all(name, dataset, count)


def _tensors_of(dataset: AnyDataset) -> tuple[Tensor, ...] | None:
    """The tensors that a Dataset only takes its items out of; None if it does something of its own."""
    if type(dataset) is TensorDataset:
        return dataset.tensors
    if type(dataset) is Subset and (inner := _tensors_of(dataset.dataset)) is not None:
        rows = np.asarray(list(dataset.indices), dtype=np.int64)
        return tuple(tensor[rows] for tensor in inner)
    return None


def _read_all(name: str, dataset: AnyDataset, count: int) -> tuple[Arrays, Array]:
    kind, first = _item(f"{name}: item 0", dataset, 0)
    arrays = {leaf: np.empty((count, *value.shape), dtype=value.dtype) for leaf, value in first.items()}
    for index in range(count):
        called = f"{name}: item {index}"
        same_kind, leaves = _item(called, dataset, index) if index else (kind, first)
        if same_kind != kind or list(leaves) != list(first):
            raise UserError(f"{called} has {', '.join(leaves)}, but item 0 {', '.join(first)}; accepted: the same")
        for leaf, value in leaves.items():
            wanted = first[leaf]
            if (value.shape, value.dtype) != (wanted.shape, wanted.dtype):
                raise UserError(
                    f"{called}: {leaf} has the shape {value.shape} and type {value.dtype}, but that of item 0 "
                    f"{wanted.shape} and {wanted.dtype}; accepted: the same for all items"
                )
            arrays[leaf][index] = value
        if index < READ_TWICE:
            _check_it_is_not_random(called, _item(called, dataset, index)[1], leaves)
    *inputs, target = arrays.values()
    if kind == "dict":
        return dict(zip((key.removeprefix("x ") for key in arrays), inputs, strict=False)), target
    return (tuple(inputs) if kind == "tuple" else _with_features(inputs[0])), target


def _with_features(x: NDArray[Any]) -> NDArray[Any]:
    """Numbers as samples of one feature."""
    return x[:, None] if x.ndim == 1 else x


def _item(called: str, dataset: AnyDataset, index: int) -> tuple[str, Leaves]:
    """One item: whether its x is one input, a tuple or a dict, and all its arrays."""
    try:
        item = dataset[index]
    except IndexError:
        raise UserError(f"{called} is not there, but the Dataset says that it has {len(dataset)}") from None  # type: ignore[arg-type]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        held = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
        raise UserError(
            f"{called} is a {type(item).__name__}{held}; accepted: a pair (inputs, target), several inputs being a "
            "tuple or a dict"
        )
    x, y = item
    if isinstance(x, Mapping):
        kind, named = "dict", {f"x {key}": value for key, value in x.items()}
    elif isinstance(x, tuple):
        kind, named = "tuple", {f"x {place}": value for place, value in enumerate(x)}
    else:
        kind, named = "one", {"x": x}
    return kind, {leaf: _value(f"{called}: {leaf}", value) for leaf, value in {**named, TARGET: y}.items()}


def _value(called: str, value: Any) -> NDArray[Any]:
    return pixels_of(called, value) if is_image(value) else as_numpy(called, value)


def _check_it_is_not_random(called: str, again: Leaves, before: Leaves) -> None:
    for leaf, value in before.items():
        if leaf not in again or not np.array_equal(value, again[leaf], equal_nan=value.dtype.kind == "f"):
            raise UserError(
                f"{called}: {leaf} is another one when it is read again, so that it is random; accepted: the same "
                "values each time; random changes of inputs belong to the experiment's augment"
            )
