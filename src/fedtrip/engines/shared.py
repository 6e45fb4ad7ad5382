"""Memory that processes share: anonymous files, inherited by descriptor, gone when the last process is.

Nothing has a name in the file system, so nothing is left behind, also after kill -9.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 64


class Placed(NamedTuple):
    """Where a tensor lies in a block of shared memory."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int


Layout = dict[str, Placed]


class SharedBlock:
    """Shared memory that grows as needed. One process writes named tensors into it, others read them as views."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = anonymous_file() if descriptor is None else descriptor
        self._bytes = torch.empty(0, dtype=torch.uint8)
        self._end = 0
        """where the next tensor goes"""

    def write(self, tensors: Mapping[str, Tensor]) -> Layout:
        """Copy the tensors in, over what was there; returns where they lie."""
        self.rewind()
        return self.append(tensors)

    def rewind(self) -> None:
        """Nobody needs what lies here any more: the next tensors may go over it."""
        self._end = 0

    def append(self, tensors: Mapping[str, Tensor]) -> Layout:
        """Copy the tensors in behind what is there; returns where they lie. One with two names is there once."""
        layout: Layout = {}
        new: dict[tuple[object, ...], str] = {}
        for name, tensor in tensors.items():
            first = new.setdefault((tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()), name)
            if first in layout:
                layout[name] = layout[first]
                continue
            layout[name] = Placed(tensor.dtype, tuple(tensor.shape), self._end)
            self._end += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
        if self._end > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, self._end)
        views = self.read(layout)
        for name in new.values():
            views[name].copy_(tensors[name])
        return layout

    def read(self, layout: Layout) -> dict[str, Tensor]:
        """The tensors as views of the shared memory: valid until the writer writes over them."""
        size = os.fstat(self.descriptor).st_size
        if size > self._bytes.numel():
            self._bytes = torch.frombuffer(mmap.mmap(self.descriptor, size), dtype=torch.uint8)
        views = {}
        for name, (dtype, shape, offset) in layout.items():
            count = torch.Size(shape).numel()
            span = self._bytes[offset : offset + count * dtype.itemsize]
            views[name] = span.view(dtype).view(shape) if count else torch.empty(shape, dtype=dtype)
        return views

    def close(self) -> None:
        """Give the descriptor back; memory that is still mapped stays valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def anonymous_file() -> int:
    """The descriptor of a new file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fedtrip")
    descriptor, path = tempfile.mkstemp(prefix="fedtrip-")  # systems without memfd, such as macOS
    os.unlink(path)
    return descriptor
