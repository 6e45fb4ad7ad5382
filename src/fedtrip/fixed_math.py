"""exp, log, cos and powers that have the same bits on every CPU, operating system and version of a library.

The functions of libm and of NumPy differ in their last bits from one set of vector instructions to another. Here they
are made of operations that IEEE 754 fixes to the last bit: + − × ÷, rounding to an integer, taking the exponent off a
number and putting it back. The polynomials are those of fdlibm (Sun Microsystems, 1993); the error is below 2 ulp, the
distance between two neighbouring numbers. A float gives a float, an array an array, element by element the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# ln 2 in two parts: the first has so few bits that its product with an exponent is exact
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ONE_BY_LN2 = 1.44269504088896338700e00
_OF_LOG_ODD = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
_OF_LOG_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_OF_EXP = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_OF_SIN = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_OF_COS = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
_LARGEST_OF_EXP, _SMALLEST_OF_EXP = 7.09782712893383973096e02, -7.45133219101941108420e02
_POWER_BITS = 128
_BLOCK = 4096  # elements at a time: intermediate results stay in the cache, which halves the time


@overload
def log(x: float) -> float: ...
@overload
def log(x: Array) -> Array: ...
def log(x: float | Array) -> float | Array:
    """ln x; −inf at 0, NaN below it."""
    return _elementwise(_log, x)


@overload
def exp(x: float) -> float: ...
@overload
def exp(x: Array) -> Array: ...
def exp(x: float | Array) -> float | Array:
    """e^x."""
    return _elementwise(_exp, x)


@overload
def cos_pi(x: float) -> float: ...
@overload
def cos_pi(x: Array) -> Array: ...
def cos_pi(x: float | Array) -> float | Array:
    """cos(πx): unlike cos x, its period is a number that a float can be divided by exactly."""
    return _elementwise(_cos_pi, x)


def power(base: float, exponent: int) -> float:
    """base^exponent for a finite base and an integer exponent from 0, by repeated squaring.

    In integers of 128 bits, because every squaring doubles the relative error of what is squared.
    """
    if exponent < 0:
        raise ValueError(f"exponent {exponent} is negative")
    numerator, denominator = base.as_integer_ratio()
    square, square_scale = numerator, 1 - denominator.bit_length()  # base = square · 2^scale
    result, scale = 1, 0
    while exponent:
        if exponent & 1:
            result, scale = _leading(result * square, scale + square_scale)
        square, square_scale = _leading(square * square, 2 * square_scale)
        exponent >>= 1
    try:
        return math.ldexp(result, scale)
    except OverflowError:
        return math.copysign(math.inf, result)


def _leading(whole: int, scale: int) -> tuple[int, int]:
    """whole · 2^scale with the leading 128 bits of `whole` only."""
    surplus = max(whole.bit_length() - _POWER_BITS, 0)
    return whole >> surplus, scale + surplus


def _elementwise(function: Callable[[Array], Array], x: float | Array) -> float | Array:
    values = np.asarray(x, dtype=np.float64).ravel()
    result = np.empty_like(values)
    with np.errstate(all="ignore"):
        for start in range(0, len(values), _BLOCK):
            result[start : start + _BLOCK] = function(values[start : start + _BLOCK])
    return result.reshape(x.shape) if isinstance(x, np.ndarray) else float(result[0])


def _log(x: Array) -> Array:
    """x = 2^k·(1+f) with √½ ≤ 1+f < √2; ln(1+f) is a series in s = f/(2+f), as ln((1+s)/(1−s)) is."""
    fraction, exponent = np.frexp(x)
    low = fraction < math.sqrt(0.5)
    f = np.where(low, 2 * fraction, fraction) - 1
    k = (exponent - low).astype(np.float64)
    s = f / (2 + f)
    z = s * s
    w = z * z
    series = z * _polynomial(_OF_LOG_ODD, w) + w * _polynomial(_OF_LOG_EVEN, w)
    half_square = 0.5 * f * f
    result: Array = k * _LN2_HIGH - ((half_square - (s * (half_square + series) + k * _LN2_LOW)) - f)
    regular = (x > 0) & (x < np.inf)
    if not regular.all():
        result[~regular] = np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan))[~regular]
    return result


def _exp(x: Array) -> Array:
    """e^x = 2^k·e^r with |r| ≤ ½ ln 2; e^r = 1 + r + r·c/(2−c), c = r − r²·(a polynomial in r²)."""
    regular = (x >= _SMALLEST_OF_EXP) & (x <= _LARGEST_OF_EXP)
    inside = np.where(regular, x, 0.0)
    k = np.rint(inside * _ONE_BY_LN2)
    high, low = inside - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    z = r * r
    c = r - z * _polynomial(_OF_EXP, z)
    result = np.ldexp(1 - ((low - r * c / (2 - c)) - high), k.astype(np.int32))
    return np.where(regular, result, np.where(x > 0, np.inf, np.where(x < 0, 0.0, np.nan)))


def _cos_pi(x: Array) -> Array:
    """The distance of x to the nearest even number, folded to at most ¼; each step of it is exact."""
    distance = np.abs(x - 2 * np.rint(x / 2))
    folded = np.minimum(distance, 1 - distance)
    by_sine = folded > 0.25
    y = math.pi * np.where(by_sine, 0.5 - folded, folded)
    z = y * y
    half_square = 0.5 * z
    rest = 1 - half_square
    cosine = rest + (((1 - rest) - half_square) + z * z * _polynomial(_OF_COS, z))
    sine = y + y * z * _polynomial(_OF_SIN, z)
    nearest: Array = np.where(by_sine, sine, cosine)
    return np.where(distance > 0.5, -nearest, nearest)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """c₀ + c₁x + c₂x² + …, by Horner's rule."""
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= x
        result += coefficient
    return result
