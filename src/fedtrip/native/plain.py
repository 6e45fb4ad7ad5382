"""The arithmetic of `engine/arithmetic.h` in numpy, to the same bits: what is computed where the library is missing.

numpy's + − · / and sqrt on arrays are those of IEEE 754, rounded one by one on every CPU. Its sums and its exp are not
the same everywhere: they are made of these here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

LANES = 16
PART = 2**16
"""Numbers at once, a multiple of `LANES`: no temporary is as long as a model."""

QUIET = np.errstate(all="ignore")
"""What overflows or is not a number passes silently, as in torch: whoever looks at a result finds it there."""

Floats = NDArray[np.float32] | NDArray[np.float64]
Doubles = NDArray[np.float64]


@QUIET
def axpy(y: Floats, a: float, x: Floats) -> None:
    """y ← y + a·x, with a in y's precision."""
    for part in _parts(len(y)):
        y[part] += y.dtype.type(a) * x[part]


@QUIET
def add_weighted(sums: Doubles, x: Floats, weight: float) -> None:
    """sums ← sums + weight·x in float64."""
    for part in _parts(len(sums)):
        sums[part] += weight * x[part].astype(np.float64)


@QUIET
def total(x: Floats) -> float:
    """Σ x_i in 16 lanes."""
    return _lane_sum(len(x), lambda part: x[part].astype(np.float64))


@QUIET
def dot(x: Floats, y: Floats) -> float:
    """Σ x_i·y_i in 16 lanes."""
    return _lane_sum(len(x), lambda part: x[part].astype(np.float64) * y[part].astype(np.float64))


@QUIET
def row_dots(x: Floats, y: Floats) -> Doubles:
    """Σ_j x_ij·y_ij for each row i, in 16 lanes."""
    return _row_sums(x.astype(np.float64) * y.astype(np.float64))


@QUIET
def softmax_rows(z: Floats, temperature: float) -> Doubles:
    """exp(z_ij/T − max_j)/Σ_j of them, for each row i."""
    scaled = z.astype(np.float64) / temperature
    powers = exp(scaled - scaled.max(axis=1, keepdims=True))
    return powers / _row_sums(powers)[:, None]


@QUIET
def square_root(x: Floats, out: Floats) -> None:
    """out ← √x_i, rounded right."""
    np.sqrt(x, out=out)


@QUIET
def exp(x: Doubles) -> Doubles:
    """2^k·exp(r), k = the integer nearest to x/ln 2, r = x − k·ln 2; exp(r) is its Taylor polynomial of degree 13.

    ln 2 is split so that k times its larger part is exact. Below −708 it is 0, above 709 infinite.
    """
    to_integer = 6755399441055744.0  # 1.5·2^52: what is added to it is rounded to an integer
    inside = (x >= -708.0) & (x <= 709.0)
    bounded = np.where(inside, x, 0.0)
    k = (bounded * float.fromhex("0x1.71547652b82fep+0") + to_integer) - to_integer
    r = (bounded - k * float.fromhex("0x1.62e42fee00000p-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
    power = np.full_like(r, 1 / math.factorial(13))
    for degree in range(12, -1, -1):
        power = power * r + 1 / math.factorial(degree)
    scale = ((k.astype(np.int64) + 1023) << 52).view(np.float64)
    return np.where(inside, power * scale, np.where(x < 0, 0.0, np.where(x > 0, np.inf, x)))


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, start + PART) for start in range(0, n, PART))


def _lane_sum(n: int, terms: Callable[[slice], Doubles]) -> float:
    lanes = np.zeros(LANES)
    for part in _parts(n):
        values = terms(part)
        rows = np.zeros((1 + math.ceil(len(values) / LANES), LANES))  # a lane is never −0: adding 0 changes nothing
        rows[0] = lanes
        rows.reshape(-1)[LANES : LANES + len(values)] = values
        lanes = np.add.reduce(rows, axis=0)  # row after row: numpy adds in pairs only along the last axis
    return float(_folded(lanes))


def _row_sums(terms: Doubles) -> Doubles:
    lanes = np.zeros((len(terms), LANES))
    for start in range(0, terms.shape[1], LANES):
        block = terms[:, start : start + LANES]
        lanes[:, : block.shape[1]] += block
    return _folded(lanes)


def _folded(lanes: Doubles) -> Doubles:
    """Lane i takes lane i + 8, then i + 4, i + 2 and i + 1; lane 0 is the sum."""
    for half in (8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    folded: Doubles = lanes[..., 0]
    return folded
