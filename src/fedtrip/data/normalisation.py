"""The numbers an input is normalised with: given, or the mean and deviation of the training set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError

Numbers = float | Sequence[float]
_SAMPLES_AT_A_TIME = 1_024


def normalisation(
    x_train: Tensor, mean: Numbers | None, std: Numbers | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation, equally many: those given, the others measured on the training set."""
    if mean is None or std is None:
        measured_mean, measured_std = measure(x_train)
    means = measured_mean if mean is None else _given("mean", mean, x_train)
    stds = measured_std if std is None else _given("std", std, x_train)
    if min(stds) <= 0:
        raise UserError(f"std {min(stds)} cannot divide an input; give a number above 0")
    length = max(len(means), len(stds))
    return means * (length // len(means)), stds * (length // len(stds))


def measure(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and population standard deviation of each channel of (n, C, H, W), of all values otherwise.

    In the unit the model would see: uint8 is counted from 0 to 1. A deviation of 0 becomes 1, so that inputs
    without any variation are only centred.
    """
    values: NDArray[Any] = x.numpy()
    channels = values.shape[1] if values.ndim == 4 else 1
    by_channel = values.reshape(len(values), channels, -1)
    scale = 255.0 if values.dtype == np.uint8 else 1.0
    count = by_channel.shape[0] * by_channel.shape[2]
    # Two passes in float64 over slices: exact enough for any offset, without a float64 copy of the whole set.
    mean = sum(part.sum(axis=(0, 2)) for part in _slices(by_channel, scale)) / count
    squares = sum(((part - mean[:, None]) ** 2).sum(axis=(0, 2)) for part in _slices(by_channel, scale))
    std = np.sqrt(squares / count)
    # Rounding leaves a constant channel a deviation of about 1e-16 of its value: that is a 0 too.
    std = np.where(std <= 1e-12 * np.abs(mean), 1.0, std)
    return tuple(mean.tolist()), tuple(std.tolist())


def _slices(values: NDArray[Any], scale: float) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(values), _SAMPLES_AT_A_TIME):
        yield values[start : start + _SAMPLES_AT_A_TIME].astype(np.float64) / scale


def _given(name: str, numbers: Numbers, x_train: Tensor) -> tuple[float, ...]:
    values = tuple(map(float, numbers)) if isinstance(numbers, Sequence) else (float(numbers),)
    if len(values) not in (1, x_train.shape[1]):
        raise UserError(f"{name} has {len(values)} numbers; give 1, or {x_train.shape[1]}: one for each channel")
    if not all(map(math.isfinite, values)):
        raise UserError(f"{name} {values} is not finite")
    return values
