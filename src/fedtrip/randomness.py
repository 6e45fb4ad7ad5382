"""Randomness as a pure function of (seed, purpose, keys): no order of execution can change a draw.

Of NumPy only the bit generator is used, whose stream it promises for ever. What is made of the bits (uniform numbers,
permutations, choices, …) is made here, because `Generator.permutation` and its like may change with NumPy's version,
and those with a logarithm inside with the CPU.
"""

from __future__ import annotations

import hashlib
import math
from operator import index

import numpy as np
from numpy.typing import NDArray

from fedtrip import fixed_math
from fedtrip.errors import UserError

Floats = NDArray[np.float64]


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """A generator of its own for one use: PCG64(SeedSequence(SHA-256(purpose, seed, keys))).

    `purpose` says what is drawn ("partition", "batches") and `keys` for which round, client, …; the same arguments
    give the same numbers on every call, other arguments numbers that are independent of them.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(_digest(seed, purpose, keys)))))


def torch_seed(seed: int, purpose: str, *keys: int) -> int:
    """A seed in [0, 2⁶³) for `torch.manual_seed`: the leading 63 bits of SHA-256(purpose, seed, keys)."""
    return int.from_bytes(_digest(seed, purpose, keys)[:8]) >> 1


def uniforms(rng: np.random.Generator, size: int) -> Floats:
    """Numbers in [0, 1), the multiples of 2⁻⁵³ equally likely."""
    return (_raw(rng, size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def exponentials(rng: np.random.Generator, size: int) -> Floats:
    """−ln u with u uniform in (0, 1): numbers above 0 and below 37, of mean 1."""
    return -fixed_math.log(_inner_uniforms(rng, size))


def normals(rng: np.random.Generator, size: int) -> Floats:
    """√(−2 ln u)·cos(2πv), u and v uniform: of mean 0 and variance 1 (Box and Muller, 1958)."""
    length = np.sqrt(2 * exponentials(rng, size))
    return length * fixed_math.cos_pi(2 * uniforms(rng, size))


def gammas(rng: np.random.Generator, shape: float, size: int) -> Floats:
    """Gamma variates of a shape from 1, scale 1 (Marsaglia and Tsang, 2000).

    d·v with d = shape − ⅓ and v = (1 + x/√(9d))³, x normal; kept if ln u < x²/2 + d(1 − v + ln v), or else drawn
    again.
    """
    if shape < 1:
        raise ValueError(f"shape {shape} is below 1")
    d = shape - 1 / 3
    kept = np.empty(size)
    open_places = np.arange(size)
    while len(open_places):
        x = normals(rng, len(open_places))
        root = np.maximum(1 + x / (3 * math.sqrt(d)), 0.0)  # v = 0 is never kept: its logarithm is −inf
        v = root * root * root
        limit = 0.5 * x * x + d * ((1 - v) + fixed_math.log(v))
        good = -exponentials(rng, len(open_places)) < limit
        kept[open_places[good]] = v[good]
        open_places = open_places[~good]
    return d * kept


def permutation(rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """The numbers 0 to size − 1 in random order: sorted by random bits.

    The lowest bits of each key are the number itself, so that all keys differ and every way of sorting gives the same.
    (Of 60,000 numbers, 48 random bits are left: that two of them agree has a probability of 6·10⁻⁶.)
    """
    bits = np.uint64(max(size - 1, 0).bit_length())
    keys = _raw(rng, size) >> bits << bits | np.arange(size, dtype=np.uint64)
    keys.sort()
    return (keys & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)


def choice(rng: np.random.Generator, size: int, count: int) -> list[int]:
    """`count` of the numbers 0 to size − 1 in ascending order, all such sets equally likely.

    Floyd's algorithm: for j from size − count, take a number from 0 to j, or j itself if that one is taken. The time
    follows `count` and not `size`.
    """
    if not 0 <= count <= size:
        raise ValueError(f"{count} of {size} numbers cannot be chosen")
    chosen: set[int] = set()
    for j in range(size - count, size):
        number = _below(rng, j + 1)
        chosen.add(j if number in chosen else number)
    return sorted(chosen)


def _below(rng: np.random.Generator, bound: int) -> int:
    """One of 0 to bound − 1, all equally likely: ⌊raw·bound/2⁶⁴⌋, drawn again where one of them has a value too many
    (Lemire, 2019)."""
    while True:
        product = int(rng.bit_generator.random_raw()) * bound
        if product % 2**64 >= 2**64 % bound:
            return product >> 64


def _inner_uniforms(rng: np.random.Generator, size: int) -> Floats:
    """Numbers in (0, 1), never 0 and never 1: the middles of 2⁵² equal parts."""
    return ((_raw(rng, size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _raw(rng: np.random.Generator, size: int) -> NDArray[np.uint64]:
    raw: NDArray[np.uint64] = rng.bit_generator.random_raw(size)
    return raw


def _digest(seed: int, purpose: str, keys: tuple[int, ...]) -> bytes:
    """SHA-256 of an unambiguous text of all arguments; hexadecimal, because decimal has a length limit in Python.

    Everything is hashed since SeedSequence itself pads with zeros: there (1,) and (1, 0) are one seed.
    """
    if index(seed) < 0:
        raise UserError(f"seed {seed} is negative; accepted: integers from 0")
    return hashlib.sha256("\0".join([*(format(index(n), "x") for n in (seed, *keys)), purpose]).encode()).digest()
