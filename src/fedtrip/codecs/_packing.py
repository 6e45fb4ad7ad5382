"""Codes of a few bits, scales of blocks: how several codecs lay out their bytes, and what they refuse of them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

LARGEST = float(np.finfo(np.float32).max)


def packed(codes: Bytes, bits: int) -> Bytes:
    """Codes below 2^bits in ⌈bits·d/8⌉ bytes, one after the other, the lowest bit first: two of four bits in a byte,
    the first in its low half."""
    if bits == 8:
        return codes
    rows = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little")
    return np.packbits(rows.reshape(-1), bitorder="little")


def unpacked(raw: Bytes, bits: int, d: int) -> Bytes:
    """The d codes that `packed` made these bytes of."""
    if bits == 8:
        return raw[:d]
    rows = np.unpackbits(raw, count=bits * d, bitorder="little").reshape(d, bits)
    return np.packbits(rows, axis=1, bitorder="little").reshape(d)


def packed_length(bits: int, d: int) -> int:
    """Bytes of d codes."""
    return math.ceil(bits * d / 8)


def count_blocks(d: int, block: int | None) -> int:
    """Blocks of d numbers; without a length the whole vector is one, even an empty one."""
    return 1 if block is None else math.ceil(d / block)


def in_blocks(x: Floats, block: int | None) -> Floats:
    """The numbers as a matrix, a block in each row, zeros behind the last number."""
    rows = count_blocks(len(x), block)
    matrix = np.zeros((rows, len(x) if block is None else block), dtype=x.dtype)
    matrix.reshape(-1)[: len(x)] = x
    return matrix


def for_each(scales: Doubles, d: int, block: int | None) -> Doubles:
    """Each number's scale, or one for all of them."""
    return scales if block is None else np.repeat(scales, block)[:d]


def scale_bytes(scales: Floats) -> Bytes:
    """Scales as float32, lowest byte first."""
    return np.frombuffer(scales.astype("<f4").tobytes(), np.uint8)


def read_scales(raw: Bytes, count: int) -> Floats:
    """The scales that a payload begins with; raises `ValueError` for one that no codec sends of finite numbers."""
    scales = np.frombuffer(raw[: 4 * count].tobytes(), "<f4").astype(np.float32)
    wrong = scales[~((scales >= 0) & (scales <= LARGEST))]
    if len(wrong):
        raise ValueError(f"a scale is {wrong[0]}; accepted: finite numbers from 0")
    return scales
