"""Arrays that lie in files: mapped into memory and never copied, in this process and in others.

They are mapped privately (copy on write), because PyTorch has no read-only tensors: the file itself is never written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError


@dataclass(frozen=True)
class FileSpan:
    """A tensor's place in a file, and what the file was like: a changed one holds other values."""

    path: str
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    state: tuple[int, int, int]
    """inode, size and time of the last change"""

    def tensor(self) -> Tensor:
        """The tensor, mapped from the file."""
        try:
            is_changed = _state(self.path) != self.state
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read any more ({error.strerror or error})") from error
        if is_changed:
            raise UserError(f"{self.path}: was changed while a run read it; accepted: leave it alone until the end")
        return torch.from_numpy(_mapped(self.path, self.offset, _numpy_type(self.dtype), self.shape))


@dataclass(frozen=True)
class MappedFile:
    """A tensor of a data set that lies in a file."""

    tensor: Tensor
    """kept, so that its addresses mean the file as long as this is known"""
    span: FileSpan

    @classmethod
    def of(cls, values: NDArray[Any], tensor: Tensor) -> Self | None:
        """If these values lie in a file that is only read, and the tensor has just these."""
        root = root_of(values)
        if root is None or not values.flags.c_contiguous or values.nbytes != tensor.nbytes:
            return None
        if values.dtype != _numpy_type(tensor.dtype):
            return None
        path = str(root.filename)
        return cls(tensor, FileSpan(path, offset_of(values, root), tensor.dtype, tuple(tensor.shape), _state(path)))

    def span_of(self, tensor: Tensor) -> FileSpan | None:
        """Where a view of the tensor lies in the file; None for any other one."""
        start = tensor.data_ptr() - self.tensor.data_ptr()
        if not tensor.is_contiguous() or start < 0 or start + tensor.nbytes > self.tensor.nbytes or not tensor.nbytes:
            return None
        span = self.span
        return FileSpan(span.path, span.offset + start, tensor.dtype, tuple(tensor.shape), span.state)


def root_of(values: NDArray[Any]) -> np.memmap[Any, Any] | None:
    """The array that maps the whole file in which these values lie, if it is opened for reading only.

    What another mode maps may have been changed in memory, or may be later.
    """
    root = None
    step: object = values
    while isinstance(step, np.ndarray):
        root = step if isinstance(step, np.memmap) else root
        step = step.base
    return root if root is not None and root.mode == "r" and root.filename is not None else None


def offset_of(values: NDArray[Any], root: np.memmap[Any, Any]) -> int:
    """Where in the file the values begin."""
    return int(root.offset) + values.ctypes.data - root.ctypes.data


def writable(values: NDArray[Any]) -> NDArray[Any]:
    """The values where writing to them does no harm: a private mapping of their file, otherwise a copy."""
    root = root_of(values)
    if root is None or not values.flags.c_contiguous:
        return values.copy()
    return _mapped(str(root.filename), offset_of(values, root), values.dtype, values.shape)


def _mapped(path: str, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        return np.asarray(np.memmap(path, dtype=dtype, mode="c", offset=offset, shape=shape))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be mapped into memory ({error})") from error


def _numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


def _state(path: str) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns
