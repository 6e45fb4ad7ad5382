"""exp, log, cos and powers: by hand, and against 200 bits of mpmath."""

import math
import struct

import mpmath
import numpy as np
import pytest

from fedtrip.fixed_math import cos_pi, exp, log, power

SMALLEST = 5e-324


def some(low, high, size=3000, seed=0):
    """Numbers between the two, the same on every machine."""
    return low + (high - low) * np.random.default_rng(seed).random(size)


def spread(size=3000):
    """Positive numbers of all sizes, subnormal ones too."""
    raw = np.random.default_rng(1).integers(1, 0x7FEFFFFFFFFFFFFF, size)
    return np.concatenate([raw.view(np.float64), SMALLEST * np.arange(1, 100)])


def ulps(found, exact):
    """How far a float is from the exact number, in distances of neighbouring floats."""
    return float(abs(mpmath.mpf(found) - exact) / math.ulp(float(exact)))


ACCURACY = {
    "log from 0 to 1": (log, mpmath.log, some(0, 1), 1),
    "log near 1": (log, mpmath.log, some(0.999, 1.001), 1),
    "log of all sizes": (log, mpmath.log, spread(), 1),
    "exp of moderate numbers": (exp, mpmath.exp, some(-2, 2), 1),
    "exp of all numbers": (exp, mpmath.exp, some(-745, 709.78), 1.1),
    "exp near 0": (exp, mpmath.exp, some(-1e-9, 1e-9), 1),
    "cos of two turns": (cos_pi, lambda x: mpmath.cos(mpmath.pi * x), some(-2, 2), 2),
    "cos far away": (cos_pi, lambda x: mpmath.cos(mpmath.pi * x), some(-1e6, 1e6), 2),
    "cos near its zero": (cos_pi, lambda x: mpmath.cos(mpmath.pi * x), some(0.5 - 1e-6, 0.5 + 1e-6), 2),
}


@pytest.mark.parametrize("case", ACCURACY)
def test_within_an_ulp_or_two(case):
    function, exact, numbers, bound = ACCURACY[case]
    with mpmath.workprec(200):
        assert max(
            ulps(found, exact(mpmath.mpf(x)))
            for x, found in zip(numbers.tolist(), function(numbers).tolist(), strict=True)
        ) < bound  # fmt: skip


@pytest.mark.parametrize("function", [log, exp, cos_pi])
def test_a_float_gives_a_float_with_the_bits_of_the_array(function):
    numbers = np.concatenate([some(-3, 3, 200), spread(200), [0.0, -0.0, math.inf, -math.inf, math.nan]])
    single = [function(x) for x in numbers.tolist()]
    assert {type(x) for x in single} == {float}
    assert np.array(single).tobytes() == function(numbers).tobytes()
    assert function(np.float64(0.3)) == function(0.3)


def test_an_array_of_any_shape_and_length_is_taken_element_by_element():
    numbers = some(0.1, 9, 10_000)
    assert np.array_equal(log(numbers.reshape(20, 50, 10)), log(numbers).reshape(20, 50, 10))
    assert np.array_equal(log(numbers[::3]), log(numbers)[::3])
    assert np.array_equal(log(numbers)[-5:], log(numbers[-5:]))
    assert log(np.empty(0)).shape == (0,)


def test_an_array_is_left_as_it_is():
    numbers = some(0.1, 9, 50)
    before = numbers.copy()
    log(numbers), exp(numbers), cos_pi(numbers)
    assert np.array_equal(numbers, before)


def test_log_at_its_edges():
    assert log(1.0) == 0.0
    assert log(0.0) == log(-0.0) == -math.inf
    assert log(math.inf) == math.inf
    assert all(math.isnan(log(x)) for x in (-1.0, -SMALLEST, -math.inf, math.nan))
    assert log(SMALLEST) == pytest.approx(-1074 * math.log(2), rel=1e-15)
    assert log(1.7976931348623157e308) == pytest.approx(1024 * math.log(2), rel=1e-15)
    assert log(1 + 2**-52) == 2**-52 - 2**-105  # x − x²/2


def test_exp_at_its_edges():
    assert exp(0.0) == exp(-0.0) == exp(1e-20) == exp(SMALLEST) == 1.0
    assert exp(math.inf) == exp(709.79) == math.inf
    assert exp(-math.inf) == exp(-745.14) == exp(-1e300) == 0.0
    assert exp(-745.13) == SMALLEST
    assert exp(709.78) == pytest.approx(1.792822e308, rel=1e-6)
    assert math.isnan(exp(math.nan))
    assert exp(1.0) == pytest.approx(math.e, rel=3e-16)


def test_cos_by_hand():
    assert [cos_pi(x) for x in (0.0, 0.25, 1 / 3, 0.5, 1.0, 1.5, 2.0, -1.0)] == pytest.approx(
        [1, math.sqrt(0.5), 0.5, 0, -1, 0, 1, -1], abs=1e-15
    )
    assert [cos_pi(x) for x in (0.5, 1.5, -2.5, 1e15 + 0.5)] == [0.0] * 4  # exactly, which cos(π/2) is not
    assert cos_pi(1e300) == cos_pi(2.0**53) == 1.0  # even numbers
    assert cos_pi(2.0**53 - 1) == -1.0
    assert all(math.isnan(cos_pi(x)) for x in (math.inf, -math.inf, math.nan))
    numbers = some(0, 1)
    assert np.array_equal(cos_pi(-numbers), cos_pi(numbers))


def test_powers_by_hand():
    assert [power(0.5, n) for n in range(5)] == [1.0, 0.5, 0.25, 0.125, 0.0625]
    assert [power(-3.0, n) for n in range(4)] == [1.0, -3.0, 9.0, -27.0]
    assert power(0.0, 0) == power(1.0, 10**15) == 1.0
    assert power(0.0, 3) == power(0.9, 10**7) == power(0.5, 1075) == 0.0
    assert power(0.5, 1074) == SMALLEST
    assert (power(10.0, 400), power(-10.0, 401)) == (math.inf, -math.inf)
    with pytest.raises(ValueError, match="exponent -1 is negative"):
        power(0.5, -1)


def test_powers_are_rounded_once():
    exponents = np.random.default_rng(2).integers(0, 20_000, 500).tolist()
    with mpmath.workprec(300):
        for base, exponent in zip(some(0.97, 1.03, 500).tolist(), exponents, strict=True):
            assert ulps(power(base, exponent), mpmath.mpf(base) ** exponent) <= 0.5 + 1e-9


def test_bits_of_a_few_values():
    """These never change: whoever changes them changes the bits of every run."""
    found = [log(0.3), log(1e-300), exp(-0.7), exp(300.5), cos_pi(0.1), cos_pi(0.7), power(0.998, 777)]
    assert [struct.pack(">d", x).hex() for x in found] == [
        "bff34378fcbda721",
        "c085963447f87fb5",
        "3fdfc80db9dd5542",
        "5b0719c25b8f5b4a",
        "3fee6f0e134454ff",
        "bfe2cf2304755a5d",
        "3fcb046815942f72",
    ]
