"""scikit-learn's handwritten digits: 1,797 images of 8×8, at hand without any download."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_digits() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Training images and labels, then 360 test images and labels, split once and for all in proportion to classes."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = digits.images.astype(np.float32)
    x_train, x_test, y_train, y_test = train_test_split(
        images, digits.target, test_size=360, stratify=digits.target, random_state=0
    )
    return x_train, y_train, x_test, y_test
