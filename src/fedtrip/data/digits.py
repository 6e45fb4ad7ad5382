"""Handwritten digits, 1,797 images of 8×8, that come with the package: at hand without any download.

`digits.txt` beside the file names their source and licence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).with_name("digits.npz")


def read_digits() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Training images (n, 1, 8, 8) and labels, then 360 test images and labels.

    Split once and for all, in proportion to classes.
    """
    with np.load(FILE, allow_pickle=False) as file:
        x_train, y_train, x_test, y_test = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    train, test = (x[:, None].astype(np.float32) for x in (x_train, x_test))
    return train, y_train.astype(np.int64), test, y_test.astype(np.int64)
