"""CIFAR's binary batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedtrip.data.cifar import read_batches
from fedtrip.errors import UserError


def test_batches_are_joined_in_order_and_channels_come_first(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    records = random.integers(0, 256, (5, 3073), np.uint8)
    paths = [tmp_path / "one.bin", tmp_path / "two.bin"]
    paths[0].write_bytes(records[:3].tobytes())
    paths[1].write_bytes(records[3:].tobytes())
    images, labels = read_batches(paths)
    assert images.shape == (5, 3, 32, 32)
    np.testing.assert_array_equal(labels, records[:, 0])
    # Byte 1 + 1024·channel + 32·row + column of a record, as the publisher describes it.
    assert images[4, 2, 7, 11] == records[4, 1 + 2 * 1024 + 7 * 32 + 11]


def test_cifar_100_has_two_labels_of_which_the_fine_one_is_read(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(0, 256, (5, 3074), np.uint8)
    (tmp_path / "train.bin").write_bytes(records.tobytes())
    images, labels = read_batches([tmp_path / "train.bin"], label_bytes=2)
    np.testing.assert_array_equal(labels, records[:, 1])
    assert images[4, 2, 7, 11] == records[4, 2 + 2 * 1024 + 7 * 32 + 11]
    with pytest.raises(
        UserError, match=r"train\.bin: has 15,370 bytes, which is not a whole .* records of 3,073 bytes"
    ):
        read_batches([tmp_path / "train.bin"])


@pytest.mark.parametrize("size", [0, 1, 3072, 3074])
def test_a_broken_record_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "batch.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(UserError, match=rf"batch\.bin: has {size:,} bytes, which is not a whole number"):
        read_batches([path])


def test_a_missing_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_batches([tmp_path / "batch.bin"])
