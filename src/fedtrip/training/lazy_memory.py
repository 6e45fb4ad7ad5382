"""Memory that a process takes only while it uses it."""

from __future__ import annotations

import ctypes
import mmap
import sys

import torch
from torch import Tensor

LARGE = 2**24
"""Bytes of a vector from which it is worth a moment to give memory back."""


class LazyVector:
    """A float32 vector of zeros that takes no memory until it is written to."""

    def __init__(self, size: int) -> None:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if sys.platform != "win32" else {}
        self._pages = mmap.mmap(-1, 4 * size, **private)
        self.tensor: Tensor = torch.frombuffer(self._pages, dtype=torch.float32)

    def give_back(self) -> None:
        """Free the memory: the vector is one of zeros again, where the system can do so."""
        if sys.platform == "linux":
            self._pages.madvise(mmap.MADV_DONTNEED)


def give_back_freed(model: Tensor) -> None:
    """Have the C library return what was freed to the system, where the model is large.

    It keeps a freed vector for the next one, but an aligned block of the same size does not fit into its place.
    """
    if sys.platform == "linux" and model.nbytes >= LARGE:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
        if trim is not None:
            trim(0)
