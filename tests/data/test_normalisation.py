"""The mean and deviation of a training set, by hand and against NumPy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from fedtrip.data.normalisation import measure, normalisation


def test_pixels_are_measured_from_0_to_1_by_channel() -> None:
    pixels = torch.tensor([[[[0, 255]], [[51, 51]]]], dtype=torch.uint8)  # one image, two channels of 1×2
    mean, std = measure(pixels)
    assert mean == pytest.approx((0.5, 0.2))
    assert std == pytest.approx((0.5, 1.0))  # the second channel does not vary


@pytest.mark.parametrize("shape", [(3000, 7), (3000, 2, 3, 4)])  # more samples than one slice holds
def test_agrees_with_numpy_far_from_zero(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(1e4, 1.0, shape).astype(np.float32)
    axes = (0, 2, 3) if len(shape) == 4 else None
    mean, std = measure(torch.from_numpy(values))
    np.testing.assert_allclose(mean, np.atleast_1d(values.mean(axis=axes, dtype=np.float64)), rtol=1e-12)
    np.testing.assert_allclose(std, np.atleast_1d(values.astype(np.float64).std(axis=axes)), rtol=1e-9)


@pytest.mark.parametrize("samples", [1, 300, 5000])  # in one slice, with a last slice that is shorter
def test_pixels_are_measured_without_any_rounding_but_the_last(samples: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (samples, 2, 5, 7), dtype=np.uint8)
    mean, std = measure(torch.from_numpy(pixels))
    for channel in range(2):
        values = [Fraction(int(pixel), 255) for pixel in pixels[:, channel].ravel()]
        exact = sum(values) / len(values)
        assert mean[channel] == float(exact)
        assert std[channel] == math.sqrt(sum(value * value for value in values) / len(values) - exact * exact)


def test_numbers_are_added_slice_by_slice_and_then_exactly() -> None:
    """16,384 numbers at a time: 2¹⁰⁰ of the first slice is gone before any other of its numbers is added to it."""
    values = np.ones((16_384 + 2, 1), dtype=np.float32)
    values[0], values[16_384] = 2.0**100, -(2.0**100)
    assert measure(torch.from_numpy(values))[0] == ((16_383 + 1) / 16_386,)


@pytest.mark.parametrize("value", [0.0, 0.1, -123.456])
def test_inputs_without_variation_are_only_centred(value: float) -> None:
    assert measure(torch.full((1500, 3), value))[1] == (1.0,)


def test_given_numbers_win_and_both_get_one_length() -> None:
    x = torch.rand(4, 3, 2, 2)
    assert normalisation(x, 0.5, (1.0, 2.0, 3.0)) == ((0.5, 0.5, 0.5), (1.0, 2.0, 3.0))
    assert normalisation(x, None, 2.0) == (measure(x)[0], (2.0, 2.0, 2.0))
    assert normalisation(x, 0, 1) == ((0.0,), (1.0,))
