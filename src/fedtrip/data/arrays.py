"""Data sets from arrays in memory, NumPy's or PyTorch's: every array is checked once, here, and then trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedtrip.arguments import checked_arguments
from fedtrip.data.dataset import DataSet
from fedtrip.data.mapped import MappedFile
from fedtrip.data.normalisation import Numbers, normalisation
from fedtrip.data.targets import as_targets, check_they_are_classes, counted
from fedtrip.data.values import Array, as_float32, as_integers, as_numpy, as_tensor
from fedtrip.errors import UserError
from fedtrip.inputs import Inputs, InputSpec, count_of, joined, tensors_of
from fedtrip.targets import TargetKind

Arrays = Array | Sequence[Array] | Mapping[str, Array]
"""One array of inputs, or several that belong together: a tuple of them, or a dict."""


@checked_arguments(leave=("x_train", "y_train", "x_test", "y_test", "client_train", "client_test", "mean", "std"))
def from_arrays(
    x_train: Arrays,
    y_train: Array,
    x_test: Arrays,
    y_test: Array,
    *,
    client_train: Array | None = None,
    client_test: Array | None = None,
    name: str = "arrays",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    classes: int | None = None,
    targets: TargetKind | None = None,
) -> DataSet:
    """A data set from inputs (n, …) and their targets, by default integer labels (n,) from 0.

    Inputs. uint8 are pixels, kept as they are and scaled to [0, 1] when used, (n, H, W) with one channel. Other
    integers are token ids: they stay integers, and are never normalised. All other numbers become float32 of the shape
    that they have. Several inputs come as a tuple or a dict of arrays and reach the model as positional or keyword
    arguments, as they are: nothing of them is normalised. Memory is shared with the arrays given where type and layout
    allow it; of a `numpy.memmap` that is open for reading nothing is copied then, in no process.

    Targets are what the task wants: `classes` (n,), `labels` (n, labels) of 0 and 1, `numbers` (n,) or (n, numbers) in
    floating point, `tokens` (n, places) as integers; with `classes=0` they are numbers. `classes` is the largest label
    of both sets plus one, unless given. `client_train` and `client_test` name the client, 0 … N−1, of each sample.
    `mean` and `std` (one number, or one for each channel) are measured on the training set unless given.
    """
    kind: TargetKind = targets or ("numbers" if classes == 0 else "classes")
    train, test = as_inputs("x_train", x_train), as_inputs("x_test", x_test)
    if InputSpec.of(train) != InputSpec.of(test):
        raise UserError(f"x_test holds samples of {InputSpec.of(test)}, but x_train of {InputSpec.of(train)}")
    y = as_targets("y_train", y_train, count_of(train), kind)
    y_of_test = as_targets("y_test", y_test, count_of(test), kind)
    if y.shape[1:] != y_of_test.shape[1:]:
        raise UserError(f"y_test has the shape {tuple(y_of_test.shape)}, but y_train {tuple(y.shape)}")
    if kind == "classes" and classes is None:
        check_they_are_classes("y_train", y)
    means, stds = normalisation(train, mean, std)
    clients = None if client_train is None else _as_clients("client_train", client_train, len(y))
    return DataSet(
        name=name,
        x_train=train,
        y_train=y,
        x_test=test,
        y_test=y_of_test,
        classes=counted(y, y_of_test, kind, classes),
        mean=means,
        std=stds,
        client_train=clients,
        client_test=None if client_test is None else _as_test_clients(client_test, len(y_of_test), clients),
        files=_files(((x_train, train), (y_train, y), (x_test, test), (y_test, y_of_test))),
    )


def _files(pairs: Sequence[tuple[Arrays, Inputs]]) -> tuple[MappedFile, ...]:
    """Those of the tensors that still lie in the files in which the given arrays do."""
    found = []
    for given, inputs in pairs:
        several = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple) else (given,)
        for array, tensor in zip(several, tensors_of(inputs), strict=True):
            found.append(MappedFile.of(array, tensor) if isinstance(array, np.ndarray) else None)
    return tuple(file for file in found if file is not None)


@checked_arguments(leave=("test", "mean", "std"))
def from_clients(
    pairs: Sequence[tuple[Arrays, Array]],
    test: tuple[Arrays, Array] | Sequence[tuple[Arrays, Array]],
    *,
    name: str = "clients",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    classes: int | None = None,
    targets: TargetKind | None = None,
) -> DataSet:
    """A data set already split: one (inputs, targets) pair for each client.

    `test` is one such pair for all of them, or a list of one for each client, which are then also its own.
    """
    if not pairs:
        raise UserError("there are no clients; give at least one (inputs, labels) pair")
    kind: TargetKind = targets or ("numbers" if classes == 0 else "classes")
    x_train, y_train, client_train = _joined_clients(pairs, kind, "")
    client_test = None
    if isinstance(test, tuple):
        x_test, y_test = test
    else:
        if len(test) != len(pairs):
            raise UserError(f"test has {len(test)} pairs for {len(pairs)} clients; accepted: one for each, or one pair")
        x_test, y_test, client_test = _joined_clients(test, kind, "test ")
    return from_arrays(
        x_train, y_train, x_test, y_test, client_train=client_train, client_test=client_test, name=name, mean=mean,
        std=std, classes=classes, targets=kind,
    )  # fmt: skip


def _joined_clients(
    pairs: Sequence[tuple[Arrays, Array]], kind: TargetKind, which: str
) -> tuple[Inputs, Tensor, Tensor]:
    """All clients' inputs and targets, and the client of each sample."""
    inputs: list[Inputs] = []
    goals: list[Tensor] = []
    for client, (x, y) in enumerate(pairs):
        inputs.append(as_inputs(f"{which}x of client {client}", x))
        goals.append(as_targets(f"{which}y of client {client}", y, count_of(inputs[-1]), kind))
        if (this := InputSpec.of(inputs[-1])) != (first := InputSpec.of(inputs[0])):
            raise UserError(f"{which}x of client {client} holds samples of {this}, but client 0 of {first}")
    sizes = torch.tensor([len(y) for y in goals])
    return joined(inputs), torch.cat(goals), torch.repeat_interleave(torch.arange(len(pairs)), sizes)


def as_inputs(name: str, arrays: Arrays) -> Inputs:
    """Inputs as contiguous tensors, all values finite: one array, or several of equally many samples."""
    several: Inputs
    if isinstance(arrays, Mapping):
        several = {str(key): _one_of_several(f"{name}['{key}']", array) for key, array in arrays.items()}
    elif isinstance(arrays, tuple):
        several = tuple(_one_of_several(f"{name}[{place}]", array) for place, array in enumerate(arrays))
    else:
        return _one_input(name, arrays)  # type: ignore[arg-type]
    lengths = {len(tensor) for tensor in tensors_of(several)}
    if len(lengths) != 1:
        told = " and ".join(map(str, sorted(lengths))) or "no"
        raise UserError(f"{name} has inputs of {told} samples; accepted: at least one input, all of equally many")
    return several


def _one_input(name: str, array: Array) -> Tensor:
    """The only input: uint8 pixels, float32 numbers or int64 token ids."""
    values = as_numpy(name, array)
    if values.ndim < 2:
        raise UserError(
            f"{name} has the shape {values.shape}; accepted: (n, features), (n, height, width), "
            "(n, channels, height, width), or any other with one entry a sample and more dimensions than one"
        )
    _check_not_empty(name, values.shape)
    if values.dtype == np.uint8:
        return as_tensor(values[:, None] if values.ndim == 3 else values)
    return as_tensor(as_integers(name, values) if values.dtype.kind in "iu" else as_float32(name, values))


def _one_of_several(name: str, array: Array) -> Tensor:
    """One of several inputs: float32 numbers, int64 integers or a bool mask."""
    values = as_numpy(name, array)
    if values.ndim == 0:
        raise UserError(f"{name} has the shape (); accepted: one entry a sample")
    _check_not_empty(name, values.shape)
    if values.dtype.kind == "b":
        return as_tensor(values)
    return as_tensor(as_integers(name, values) if values.dtype.kind in "iu" else as_float32(name, values))


def _check_not_empty(name: str, shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise UserError(f"{name} has the shape {shape}: it is empty")


def _as_clients(name: str, array: Array, count: int) -> Tensor:
    values = as_numpy(name, array)
    if values.shape != (count,):
        raise UserError(f"{name} has the shape {values.shape}; it must be ({count},): one integer for each sample")
    clients = as_integers(name, values)
    present = np.unique(clients)
    if present[0] < 0:
        raise UserError(f"{name} has the client {present[0]}; clients are numbered from 0")
    absent = np.flatnonzero(present != np.arange(len(present)))
    if len(absent):
        raise UserError(
            f"{name} goes up to client {present[-1]}, but client {absent[0]} has no sample; "
            "number the clients 0 … N−1 without a gap"
        )
    return as_tensor(clients)


def _as_test_clients(array: Array, count: int, clients: Tensor | None) -> Tensor:
    """The client of each test sample; every client has some."""
    if clients is None:
        raise UserError("client_test is given without client_train; accepted: both, or neither")
    owners = _as_clients("client_test", array, count)
    if int(owners.max()) != int(clients.max()):
        raise UserError(
            f"client_test goes up to client {int(owners.max())}, client_train to {int(clients.max())}; accepted: test "
            "samples of every client"
        )
    return owners
