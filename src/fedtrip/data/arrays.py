"""Data sets from arrays in memory, NumPy's or PyTorch's: every array is checked once, here, and then trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.data.dataset import DataSet
from fedtrip.data.normalisation import Numbers, normalisation
from fedtrip.errors import UserError

Array = NDArray[Any] | Tensor
MOST_CLASSES = 1_000_000  # a label beyond is an identifier, not a class; a model would get that many outputs


def from_arrays(
    x_train: Array,
    y_train: Array,
    x_test: Array,
    y_test: Array,
    *,
    client_train: Array | None = None,
    name: str = "arrays",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    classes: int | None = None,
) -> DataSet:
    """A data set from inputs (n, features), (n, H, W) or (n, C, H, W) and integer labels (n,) from 0, or numbers (n,).

    uint8 inputs are pixels, kept as they are and scaled to [0, 1] when used; all others become float32. Memory is
    shared with the arrays given where type and layout allow it. `classes` is the largest label of both sets plus
    one, unless given; with 0 there are none, and the targets are floating-point numbers, as for the task regression.
    `client_train` names the client, 0 … N−1, of each training sample. `mean` and `std` (one
    number, or one for each channel) are measured on the training set unless given.
    """
    train, test = as_inputs("x_train", x_train), as_inputs("x_test", x_test)
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise UserError(f"x_test holds samples of {_describe(test)}, but x_train of {_describe(train)}")
    as_targets = as_numbers if classes == 0 else as_labels
    train_targets = as_targets("y_train", y_train, len(train))
    test_targets = as_targets("y_test", y_test, len(test))
    counted = 0 if classes == 0 else int(max(train_targets.max(), test_targets.max())) + 1
    if classes is not None and classes < counted:
        raise UserError(f"classes = {classes}, but the labels go up to {counted - 1}; give at least {counted}")
    means, stds = normalisation(train, mean, std)
    return DataSet(
        name=name,
        x_train=train,
        y_train=train_targets,
        x_test=test,
        y_test=test_targets,
        classes=counted if classes is None else classes,
        mean=means,
        std=stds,
        client_train=None if client_train is None else _as_clients(client_train, len(train)),
    )


def from_clients(
    pairs: Sequence[tuple[Array, Array]],
    test: tuple[Array, Array],
    *,
    name: str = "clients",
    mean: Numbers | None = None,
    std: Numbers | None = None,
    classes: int | None = None,
) -> DataSet:
    """A data set already split: one (inputs, labels) pair for each client, and one test set for all of them.

    With `classes=0` the labels are floating-point numbers, as for the task regression.
    """
    if not pairs:
        raise UserError("there are no clients; give at least one (inputs, labels) pair")
    as_targets = as_numbers if classes == 0 else as_labels
    inputs, targets = [], []
    for client, (x, y) in enumerate(pairs):
        inputs.append(as_inputs(f"x of client {client}", x))
        targets.append(as_targets(f"y of client {client}", y, len(inputs[-1])))
        if inputs[-1].shape[1:] != inputs[0].shape[1:] or inputs[-1].dtype != inputs[0].dtype:
            raise UserError(
                f"x of client {client} holds samples of {_describe(inputs[-1])}, but client 0 of {_describe(inputs[0])}"
            )
    sizes = torch.tensor([len(x) for x in inputs])
    return from_arrays(
        torch.cat(inputs),
        torch.cat(targets),
        *test,
        client_train=torch.repeat_interleave(torch.arange(len(pairs)), sizes),
        name=name,
        mean=mean,
        std=std,
        classes=classes,
    )


def as_inputs(name: str, array: Array) -> Tensor:
    """Inputs as a contiguous tensor of uint8 or float32, images with their channel dimension, all values finite."""
    values = _as_numpy(name, array)
    if values.ndim not in (2, 3, 4):
        raise UserError(
            f"{name} has the shape {values.shape}; accepted: (n, features), (n, height, width) or "
            "(n, channels, height, width)"
        )
    if 0 in values.shape:
        raise UserError(f"{name} has the shape {values.shape}: it is empty")
    if values.dtype != np.uint8:
        values = _as_float32(name, values)
    if values.ndim == 3:
        values = values[:, None]
    return _as_tensor(values)


def as_labels(name: str, array: Array, count: int) -> Tensor:
    """Labels of `count` samples as int64, each a class number from 0."""
    values = _as_integers(name, array, count, ", or any number with task regression (classes=0)")
    lowest, highest = int(values.min()), int(values.max())
    if lowest < 0:
        raise UserError(f"{name} has the label {lowest}; labels are numbered from 0")
    if highest >= MOST_CLASSES:
        raise UserError(f"{name} has the label {highest}; at most {MOST_CLASSES:,} classes are accepted")
    return _as_tensor(values)


def as_numbers(name: str, array: Array, count: int) -> Tensor:
    """Targets of `count` samples as float32, all finite."""
    values = _as_numpy(name, array)
    _check_length(name, values, count, "number")
    if values.dtype.kind != "f":
        raise UserError(
            f"{name} holds integers, of type {values.dtype}; accepted: floating-point targets, or task classification"
        )
    return _as_tensor(_as_float32(name, values))


def _as_float32(name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """The values as float32, or an error where one is not finite."""
    with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes infinite here and is refused below
        values = values.astype(np.float32, copy=False)
    finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if not finite.all():
        raise UserError(
            f"{name} has values that are NaN, infinite or beyond float32 in {np.count_nonzero(~finite):,} of "
            f"{len(values):,} samples, first in sample {int(np.argmin(finite))}"
        )
    return values


def _check_length(name: str, values: NDArray[Any], count: int, what: str) -> None:
    if values.ndim != 1:
        raise UserError(f"{name} has the shape {values.shape}; it must be ({count},): one {what} for each sample")
    if len(values) != count:
        raise UserError(f"{name} has {len(values):,} entries for {count:,} samples")


def _as_clients(array: Array, count: int) -> Tensor:
    values = _as_integers("client_train", array, count)
    present = np.unique(values)
    if present[0] < 0:
        raise UserError(f"client_train has the client {present[0]}; clients are numbered from 0")
    absent = np.flatnonzero(present != np.arange(len(present)))
    if len(absent):
        raise UserError(
            f"client_train goes up to client {present[-1]}, but client {absent[0]} has no sample; "
            "number the clients 0 … N−1 without a gap"
        )
    return _as_tensor(values)


def _as_integers(name: str, array: Array, count: int, also: str = "") -> NDArray[np.int64]:
    values = _as_numpy(name, array)
    _check_length(name, values, count, "integer")
    # Exact in float64 and int64 alike, so that the conversion below changes nothing.
    wrong = values != np.rint(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if wrong.any():
        raise UserError(f"{name} has {values[wrong][0]}, which is not an integer; accepted: integers from 0{also}")
    if values.dtype.kind in "fu" and values.max() >= 2**53:
        raise UserError(f"{name} has {values.max()}, which is too large")
    if values.dtype.kind == "f" and values.min() <= -(2**53):
        raise UserError(f"{name} has {values.min()}; numbers start from 0")
    return np.ascontiguousarray(values, dtype=np.int64)


def _as_numpy(name: str, array: Array) -> NDArray[Any]:
    """The array in main memory, numeric; nothing is copied that need not be."""
    if isinstance(array, Tensor):
        tensor = array.detach().cpu()
        # NumPy has no bfloat16.
        values: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    else:
        try:
            values = np.asarray(array)
        except ValueError as error:  # nested lists of unequal lengths
            raise UserError(f"{name} is not an array ({error})") from error
    if values.dtype.kind not in "biuf":
        raise UserError(f"{name} holds values of type {values.dtype}; numbers are needed")
    return values


def _as_tensor(values: NDArray[Any]) -> Tensor:
    contiguous = np.ascontiguousarray(values)
    # PyTorch has no read-only tensors: it would let a caller write to memory that must not be written to.
    return torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy())


def _describe(inputs: Tensor) -> str:
    return f"shape {tuple(inputs.shape[1:])} and type {str(inputs.dtype).removeprefix('torch.')}"
