"""The digits that come with the package are scikit-learn's, split as ever, to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fedtrip.data.digits
from fedtrip.data import load_dataset
from fedtrip.data.digits import read_digits

SHA256 = "2e8434adb5e4477d4835353d6d8df86d7a2f41ec1af08ae17c2bd51d787bf09b"
"""Of the images, the labels, and the mean and deviation measured in a fixed order: the same on every CPU."""


def test_they_are_scikit_learns_to_the_bit() -> None:
    digits = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(
        digits.images.astype(np.float32), digits.target, test_size=360, stratify=digits.target, random_state=0
    )
    for ours, theirs in zip(read_digits(), (x_train[:, None], y_train, x_test[:, None], y_test), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert load_dataset("digits").sha256() == SHA256


def test_they_need_no_scikit_learn() -> None:
    program = f"""
import sys
sys.modules["sklearn"] = None  # whoever imports it gets an ImportError
from fedtrip.data import load_dataset
assert load_dataset("digits").sha256() == "{SHA256}"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_source_and_licence_lie_beside_them() -> None:
    told = (Path(fedtrip.data.digits.__file__).parent / "digits.txt").read_text(encoding="utf-8")
    for expected in ("Optical Recognition of Handwritten Digits", "CC BY 4.0", "scikit-learn", "10.24432/C50P49"):
        assert expected in told
