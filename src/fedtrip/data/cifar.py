"""CIFAR-10's binary version: records of one label byte and 3,072 pixel bytes, channel by channel, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedtrip.data.memory import check_size
from fedtrip.errors import UserError

_PIXELS = 3 * 32 * 32
_RECORD = 1 + _PIXELS


def read_batches(paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 3, 32, 32) and labels of the batches, one after the other."""
    counts = [_records(path) for path in paths]
    check_size(paths[0].parent, "the images of all batches", sum(counts) * _PIXELS)
    images = np.empty((sum(counts), 3, 32, 32), dtype=np.uint8)
    labels = np.empty(sum(counts), dtype=np.uint8)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        try:
            values = np.fromfile(path, dtype=np.uint8, count=count * _RECORD)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
        if values.size != count * _RECORD:  # it shrank since it was measured
            raise UserError(f"{path}: is truncated: {values.size:,} of {count * _RECORD:,} bytes are there")
        records = values.reshape(count, _RECORD)
        labels[start : start + count] = records[:, 0]
        images[start : start + count] = records[:, 1:].reshape(count, 3, 32, 32)
        start += count
    return images, labels


def _records(path: Path) -> int:
    """How many records a batch holds, by its size."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if size == 0 or size % _RECORD:
        raise UserError(f"{path}: has {size:,} bytes, which is not a whole number of records of {_RECORD:,} bytes")
    return size // _RECORD
