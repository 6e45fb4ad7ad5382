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

    def write(self, tensors: Mapping[str, Tensor]) -> Layout:
        """Copy the tensors in, over what was there; returns where they lie."""
        layout: Layout = {}
        end = 0
        for name, tensor in tensors.items():
            layout[name] = Placed(tensor.dtype, tuple(tensor.shape), end)
            end += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
        if end > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, end)
        for name, view in self.read(layout).items():
            view.copy_(tensors[name])
        return layout

    def read(self, layout: Layout) -> dict[str, Tensor]:
        """The tensors as views of the shared memory: valid until the writer writes again."""
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
