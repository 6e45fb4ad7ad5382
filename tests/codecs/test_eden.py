"""EDEN: by hand, against a plain reference, its Lloyd-Max points, and the errors that theory gives."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard as hadamard_matrix
from scipy.stats import norm
from tests.reference.coding import made, payload_of, streams, there_and_back, vector

from fedtrip.codecs import eden
from fedtrip.randomness import uniforms


def reference(x, bits, number=0):
    """The formulas with matrices, in float64, of a vector in one block."""
    n = 2 ** math.ceil(math.log2(len(x)))
    padded = np.zeros(n)
    padded[: len(x)] = x.numpy()
    turn = hadamard_matrix(n) / math.sqrt(n)
    signs = np.where(uniforms(streams(number)("w"), n) < 0.5, -1.0, 1.0)
    y = turn @ (signs * padded)
    z = y * math.sqrt(n) / np.linalg.norm(y)
    points = np.array([*(-np.array(eden.UPPER_POINTS[bits])), *eden.UPPER_POINTS[bits]])
    nearest = points[np.abs(z[:, None] - points[None]).argmin(1)]
    scale = (y @ y) / (nearest @ y)
    return (signs * (turn @ (scale * nearest)))[: len(x)], scale


def test_by_hand():
    """x = (3, 1), one bit. With signs (+, +): y = (4, 2)/√2, ‖y‖² = 10, ‖y‖₁ = 6/√2, so DRIVE's size is 10√2/6 and
    x̂ = H(10√2/6, 10√2/6) = (10/3, 0). Other signs turn y about, and are turned back: the same."""
    codec, x = made("eden:1"), torch.tensor([3.0, 1.0])
    for number in range(8):
        assert there_and_back(codec, x, number).tolist() == pytest.approx([10 / 3, 0.0], abs=1e-6)
        scale = payload_of(codec, x, number)[:4].numpy().view(np.float32)[0]
        assert scale == pytest.approx(10 * math.sqrt(2) / 6 / math.sqrt(2 / math.pi))


def test_a_single_number_arrives():
    for bits in (1, 2, 3, 4):
        assert there_and_back(made(f"eden:{bits}"), torch.tensor([-0.3])).tolist() == pytest.approx([-0.3])


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [2, 5, 64, 300])
def test_it_is_the_formulas(bits, d):
    for number in range(5):
        x = vector(d, number) ** 3
        expected, scale = reference(x, bits, number)
        payload = payload_of(made(f"eden:{bits}"), x, number)
        assert payload[:4].numpy().view(np.float32)[0] == pytest.approx(scale, rel=1e-6)
        found = there_and_back(made(f"eden:{bits}"), x, number).numpy()
        assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("bits", eden.UPPER_POINTS)
def test_the_points_are_the_means_of_their_cells(bits):
    """Lloyd and Max: c = E[z | cell], borders half way; in (a, b) it is (φ(a) − φ(b))/(Φ(b) − Φ(a))."""
    points = made(f"eden:{bits}").points
    assert len(points) == 2**bits
    borders = np.array([-np.inf, *(points[1:] + points[:-1]) / 2, np.inf])
    means = (norm.pdf(borders[:-1]) - norm.pdf(borders[1:])) / (norm.cdf(borders[1:]) - norm.cdf(borders[:-1]))
    assert np.abs(points - means).max() < 1e-11


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_the_transform_is_hadamards_and_its_own_inverse(n):
    x = vector(n).double().numpy()
    assert np.abs(eden.hadamard(x) - hadamard_matrix(n) @ x / math.sqrt(n)).max() < 1e-12
    assert np.abs(eden.hadamard(eden.hadamard(x)) - x).max() < 1e-12


def distortion(bits):
    """D = E(z − ẑ)² of the points on a normal number, as 1 − E ẑ²."""
    points = made(f"eden:{bits}").points
    borders = np.array([-np.inf, *(points[1:] + points[:-1]) / 2, np.inf])
    return 1 - float(np.sum(points**2 * (norm.cdf(borders[1:]) - norm.cdf(borders[:-1]))))


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_the_error_is_what_theory_gives_also_for_a_spiky_vector(bits):
    """‖x̂ − x‖²/‖x‖² → 1/(1 − D) − 1 with S that makes it unbiased: π/2 − 1 = 0.571 for one bit."""
    expected = 1 / (1 - distortion(bits)) - 1
    assert bits > 1 or expected == pytest.approx(math.pi / 2 - 1, abs=1e-6)
    spiky = vector(8192, 1) ** 3
    for x in (vector(8192), spiky):
        found = there_and_back(made(f"eden:{bits}"), x)
        assert float((found - x).double().square().sum() / x.double().square().sum()) == pytest.approx(
            expected, rel=0.08
        )


def test_it_is_nearly_right_in_the_mean():
    """Hadamard's matrix is no uniform rotation: of a cubed Gaussian vector of 256 some per cent stay."""
    x = vector(256, 1) ** 3
    mean = torch.stack([there_and_back(made("eden:1"), x, number) for number in range(1000)]).double().mean(0)
    assert float((mean - x).norm() / x.norm()) < 0.06
    gaussian = vector(256)
    mean = torch.stack([there_and_back(made("eden:1"), gaussian, n) for n in range(1000)]).double().mean(0)
    assert float((mean - gaussian).norm() / gaussian.norm()) < 0.04


def test_blocks_have_scales_of_their_own_and_the_last_is_filled_up():
    assert [eden._sizes(d) for d in (0, 1, 5, 8192, 8193, 79_510)] == [
        [], [1], [8], [8192], [8192, 1], [8192] * 10,
    ]  # fmt: skip
    codec, x = made("eden:2"), torch.cat([vector(8192), 1000 * vector(5)])
    payload = payload_of(codec, x)
    assert payload.shape == (8200 // 4 + 8,)
    scales = payload[:8].numpy().view(np.float32)
    assert 100 < scales[1] / scales[0] < 10_000
    assert float((there_and_back(codec, x)[:8192] - x[:8192]).norm() / x[:8192].norm()) < 0.5
