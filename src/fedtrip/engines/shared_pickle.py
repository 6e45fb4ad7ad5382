"""An object handed to other processes, its tensors' numbers in shared memory: there once, however many processes."""

from __future__ import annotations

import io
import mmap
import os
import pickle
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, cast

import cloudpickle
import torch

from fedtrip.engines.shared import SharedBlock

Content = TypeVar("Content")
_Number = tuple[torch.dtype, int, int]
"""What stands in the pickle for a storage: type, place in the shared memory, bytes."""


@dataclass(frozen=True)
class SharedPickle(Generic[Content]):
    """A pickle without numbers, and the shared memory that has them."""

    pickled: bytes
    descriptor: int

    @classmethod
    def of(cls, content: Content, block: SharedBlock) -> Self:
        """Pickle the object, by value where its class is a user's own, and lay its numbers into the block."""
        file = io.BytesIO()
        _Pickler(file, block).dump(content)
        return cls(file.getvalue(), block.descriptor)

    def content(self) -> Content:
        """The object again. A page of its tensors becomes this process' own when it is written to."""
        return cast(Content, _Unpickler(io.BytesIO(self.pickled), self.descriptor).load())


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """As `torch.save` does, storages are set apart: two tensors that share one still do so afterwards."""

    def __init__(self, file: io.BytesIO, block: SharedBlock) -> None:
        super().__init__(file)
        self._block = block
        self._known: dict[int, _Number] = {}

    def persistent_id(self, obj: Any) -> _Number | None:
        if not isinstance(obj, torch.storage.TypedStorage):
            return None
        storage = obj._untyped_storage
        if storage.device.type != "cpu" or not storage.nbytes():
            return None
        numbers = torch.empty(0, dtype=torch.uint8).set_(storage)
        if storage.data_ptr() not in self._known:
            place = self._block.append({"": numbers})[""]
            self._known[storage.data_ptr()] = (obj.dtype, place.offset, storage.nbytes())
        return (obj.dtype, *self._known[storage.data_ptr()][1:])


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, descriptor: int) -> None:
        super().__init__(file)
        size = os.fstat(descriptor).st_size
        self._mapped = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) if size else None
        self._known: dict[int, torch.UntypedStorage] = {}

    def persistent_load(self, pid: _Number) -> torch.storage.TypedStorage:
        dtype, offset, size = pid
        assert self._mapped is not None
        if offset not in self._known:
            numbers = torch.frombuffer(self._mapped, dtype=torch.uint8, count=size, offset=offset)
            self._known[offset] = numbers.untyped_storage()
        whole: torch.storage.TypedStorage = torch.storage.TypedStorage(  # type: ignore[no-untyped-call]
            wrap_storage=self._known[offset], dtype=dtype, _internal=True
        )
        return whole
