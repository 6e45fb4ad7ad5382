"""The numbers an input is normalised with: given, or the mean and deviation of the training set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.inputs import Inputs

Numbers = float | Sequence[float]
NEVER: dict[str, tuple[object, ...]] = {"mean": (None, 0.0, (0.0,)), "std": (None, 1.0, (1.0,))}
"""What may be said of the numbers that change nothing: a stored experiment says so of token ids."""
_VALUES_AT_A_TIME = 16_384


def normalisation(
    x_train: Inputs, mean: Numbers | None, std: Numbers | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation, equally many: those given, the others measured on the training set.

    0 and 1 for what is never normalised: token ids, and several inputs.
    """
    if not isinstance(x_train, Tensor) or not (x_train.is_floating_point() or x_train.dtype == torch.uint8):
        if mean not in NEVER["mean"] or std not in NEVER["std"]:
            raise UserError(
                f"mean is {mean} and std is {std}, but integers and several inputs are never normalised; accepted: "
                "leave them out"
            )
        return (0.0,), (1.0,)
    if mean is None or std is None:
        measured_mean, measured_std = measure(x_train)
    means = measured_mean if mean is None else _given("mean", mean, x_train)
    stds = measured_std if std is None else _given("std", std, x_train)
    if min(stds) <= 0:
        raise UserError(f"std {min(stds)} cannot divide an input; give a number above 0")
    length = max(len(means), len(stds))
    return means * (length // len(means)), stds * (length // len(stds))


def measure(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and population standard deviation of each channel of (n, C, H, W, …), of all values otherwise.

    In the unit the model would see: uint8 is counted from 0 to 1. A deviation of 0 becomes 1, so that inputs
    without any variation are only centred. The same bits on every CPU, which `numpy.sum` does not have.
    """
    values: NDArray[Any] = x.numpy()
    channels = values.shape[1] if values.ndim >= 4 else 1
    by_channel = values.reshape(len(values), channels, -1)
    of_channel = _of_pixels if values.dtype == np.uint8 else _of_floats
    measured = [of_channel(by_channel[:, channel]) for channel in range(channels)]
    return tuple(mean for mean, _ in measured), tuple(std or 1.0 for _, std in measured)


def _of_pixels(pixels: NDArray[np.uint8]) -> tuple[float, float]:
    """S/n and √(n·Q − S²)/n in units of 255, with S = Σp and Q = Σp² as integers: rounded only at the end."""
    counts = sum(np.bincount(part.ravel(), minlength=256) for part in _slices(pixels))
    times = dict(enumerate(np.asarray(counts).tolist()))
    n, total, squares = (sum(pixel**power * many for pixel, many in times.items()) for power in (0, 1, 2))
    return total / (255 * n), math.sqrt((n * squares - total * total) / (255 * n) ** 2)


def _of_floats(values: NDArray[np.floating]) -> tuple[float, float]:
    """Σx/n and √(Σ(x − mean)²/n) in float64: two passes, exact enough for any offset."""
    mean = _sum(values, lambda x: x) / values.size
    std = math.sqrt(_sum(values, lambda x: (x - mean) * (x - mean)) / values.size)
    # Rounding leaves a constant channel a deviation of about 1e-16 of its value: that is a 0 too.
    return mean, 0.0 if std <= 1e-12 * abs(mean) else std


def _sum(values: NDArray[np.floating], term: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Σ term(x) in a fixed order: slice after slice, element by element, and at last what these add up to, exactly."""
    slices = _slices(values)
    total = term(next(slices).astype(np.float64))
    for part in slices:
        total[: len(part)] += term(part.astype(np.float64))
    return math.fsum(total.ravel().tolist())


def _slices(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The samples, some at a time: without a float64 copy of the whole set."""
    samples = max(_VALUES_AT_A_TIME // values.shape[1], 1)
    for start in range(0, len(values), samples):
        yield values[start : start + samples]


def _given(name: str, numbers: Numbers, x_train: Tensor) -> tuple[float, ...]:
    values = tuple(map(float, numbers)) if isinstance(numbers, Sequence) else (float(numbers),)
    if len(values) not in (1, x_train.shape[1]):
        raise UserError(f"{name} has {len(values)} numbers; give 1, or {x_train.shape[1]}: one for each channel")
    if not all(map(math.isfinite, values)):
        raise UserError(f"{name} {values} is not finite")
    return values
