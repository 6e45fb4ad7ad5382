"""Writes src/fedtrip/data/digits.npz, the digits that come with the package, from scikit-learn's.

Run once, as `python -m tools.digits_file`; tests/data/test_digits.py compares the file with scikit-learn's arrays.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

FILE = Path(__file__).parent.parent / "src" / "fedtrip" / "data" / "digits.npz"


def write(path: Path) -> None:
    """360 test images in proportion to the classes, the others to train on; numbers from 0 to 16 fit a byte."""
    digits = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(
        digits.images, digits.target, test_size=360, stratify=digits.target, random_state=0
    )
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    np.savez_compressed(path, **{name: values.astype(np.uint8) for name, values in arrays.items()})


if __name__ == "__main__":
    write(FILE)
