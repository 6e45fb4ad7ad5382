"""Arrays of a user, NumPy's or PyTorch's, as numbers in main memory: what is not finite or no number is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.data.mapped import root_of, writable
from fedtrip.errors import UserError

_VALUES_AT_A_TIME = 2**20

Array = NDArray[Any] | Tensor


def as_numpy(name: str, array: Array) -> NDArray[Any]:
    """The array in main memory, numeric; nothing is copied that need not be.

    A file that is mapped for reading is mapped anew, once for all that follows: the pages of two count twice.
    """
    if isinstance(array, Tensor):
        tensor = array.detach().cpu()
        # NumPy has no bfloat16.
        values: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    else:
        try:
            values = np.asarray(array)
            if root_of(values) is not None and values.flags.c_contiguous:
                values = writable(values)
        except ValueError as error:  # nested lists of unequal lengths
            raise UserError(f"{name} is not an array ({error})") from error
    if values.dtype.kind not in "biuf":
        raise UserError(f"{name} holds values of type {values.dtype}; numbers are needed")
    return values


def as_float32(name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """The values as float32, or an error where one is not finite."""
    with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes infinite here and is refused below
        values = values.astype(np.float32, copy=False)
    wrong = [start + place for start, part in _slices(values) for place in _not_finite(part)]
    if wrong:
        raise UserError(
            f"{name} has values that are NaN, infinite or beyond float32 in {len(wrong):,} of "
            f"{len(values):,} samples, first in sample {wrong[0]}"
        )
    return values


def as_integers(name: str, values: NDArray[Any]) -> NDArray[np.int64]:
    """The values as int64, each the same number as before."""
    # Exact in float64 and int64 alike, so that the conversion below changes nothing.
    wrong = values != np.rint(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if wrong.any():
        raise UserError(f"{name} has {values[wrong][0]}, which is not an integer; accepted: integers from 0")
    if values.dtype.kind in "fu" and values.size and values.max() >= 2**53:
        raise UserError(f"{name} has {values.max()}, which is too large")
    if values.dtype.kind == "f" and values.size and values.min() <= -(2**53):
        raise UserError(f"{name} has {values.min()}; numbers start from 0")
    return np.ascontiguousarray(values, dtype=np.int64)


def as_tensor(values: NDArray[Any]) -> Tensor:
    """The same values as a contiguous tensor."""
    contiguous = np.ascontiguousarray(values)
    # PyTorch has no read-only tensors: it would let a caller write to memory that must not be written to.
    return torch.from_numpy(contiguous if contiguous.flags.writeable else writable(contiguous))


def _slices(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """The samples some at a time, with the number of the first: no second array of the size of all of them."""
    samples = max(_VALUES_AT_A_TIME * len(values) // max(values.size, 1), 1)
    for start in range(0, len(values), samples):
        yield start, values[start : start + samples]


def _not_finite(values: NDArray[Any]) -> list[int]:
    """The samples with a value that is not finite."""
    finite = np.isfinite(values)
    if finite.all():
        return []
    found: list[int] = np.flatnonzero(~finite.reshape(len(values), -1).all(axis=1)).tolist()
    return found
