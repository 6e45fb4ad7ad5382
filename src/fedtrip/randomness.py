"""Randomness as a pure function of (seed, purpose, keys): no order of execution can change a draw."""

from __future__ import annotations

import hashlib
from operator import index

import numpy as np

from fedtrip.errors import UserError


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """A generator of its own for one use: PCG64(SeedSequence(SHA-256(purpose, seed, keys))).

    `purpose` says what is drawn ("partition", "batches") and `keys` for which round, client, …; the same arguments
    give the same numbers on every call, other arguments numbers that are independent of them.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(_digest(seed, purpose, keys)))))


def torch_seed(seed: int, purpose: str, *keys: int) -> int:
    """A seed in [0, 2⁶³) for `torch.manual_seed`: the leading 63 bits of SHA-256(purpose, seed, keys)."""
    return int.from_bytes(_digest(seed, purpose, keys)[:8]) >> 1


def _digest(seed: int, purpose: str, keys: tuple[int, ...]) -> bytes:
    """SHA-256 of an unambiguous text of all arguments; hexadecimal, because decimal has a length limit in Python.

    Everything is hashed since SeedSequence itself pads with zeros: there (1,) and (1, 0) are one seed.
    """
    if index(seed) < 0:
        raise UserError(f"seed {seed} is negative; accepted: integers from 0")
    return hashlib.sha256("\0".join([*(format(index(n), "x") for n in (seed, *keys)), purpose]).encode()).digest()
