"""CIFAR's binary versions: records of label bytes and 3,072 pixel bytes, channel by channel, row by row.

CIFAR-10 has one label byte. CIFAR-100 has two, the coarse label of 20 and the fine one of 100: the last one is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedtrip.data.memory import check_size
from fedtrip.errors import UserError

_PIXELS = 3 * 32 * 32


def read_batches(paths: Sequence[Path], label_bytes: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 3, 32, 32) and labels of the batches, one after the other."""
    record = label_bytes + _PIXELS
    counts = [check_records(path, label_bytes) for path in paths]
    check_size(paths[0].parent, "the images of all batches", sum(counts) * _PIXELS)
    images = np.empty((sum(counts), 3, 32, 32), dtype=np.uint8)
    labels = np.empty(sum(counts), dtype=np.uint8)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        try:
            values = np.fromfile(path, dtype=np.uint8, count=count * record)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
        if values.size != count * record:  # it shrank since it was measured
            raise UserError(f"{path}: is truncated: {values.size:,} of {count * record:,} bytes are there")
        records = values.reshape(count, record)
        labels[start : start + count] = records[:, label_bytes - 1]
        images[start : start + count] = records[:, label_bytes:].reshape(count, 3, 32, 32)
        start += count
    return images, labels


def check_records(path: Path, label_bytes: int) -> int:
    """How many records a batch holds, by its size; one that holds a part of one is refused."""
    record = label_bytes + _PIXELS
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if size == 0 or size % record:
        raise UserError(f"{path}: has {size:,} bytes, which is not a whole number of records of {record:,} bytes")
    return size // record
