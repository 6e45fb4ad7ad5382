"""Codes of a few bits, scales of blocks: how several codecs lay out their bytes, and what they refuse of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

PART = 2**16
"""Numbers at once, a multiple of 8."""
LARGEST = float(np.finfo(np.float32).max)


def packed(d: int, bits: int, codes: Callable[[slice], Bytes]) -> Bytes:
    """d codes below 2^bits in ⌈bits·d/8⌉ bytes, one after the other, the lowest bit first: of two with four bits the
    first has the low half of the byte. They are asked for part after part."""
    raw = np.empty(packed_length(bits, d), dtype=np.uint8)
    for part in parts(d):
        raw[_bytes_of(part, bits)] = _packed(codes(part), bits)
    return raw


def unpacked(raw: Bytes, bits: int, d: int) -> Iterator[tuple[slice, Bytes]]:
    """The d codes that `packed` made these bytes of, part after part."""
    for part in parts(d):
        yield part, _unpacked(raw[_bytes_of(part, bits)], bits, part.stop - part.start)


def parts(d: int) -> Iterator[slice]:
    """d numbers in parts, so that no temporary is as long as a model; all but the last fill whole bytes."""
    return (slice(start, min(start + PART, d)) for start in range(0, d, PART))


def packed_length(bits: int, d: int) -> int:
    """Bytes of d codes."""
    return math.ceil(bits * d / 8)


def _bytes_of(part: slice, bits: int) -> slice:
    return slice(part.start * bits // 8, packed_length(bits, part.stop))


def _packed(codes: Bytes, bits: int) -> Bytes:
    if bits == 8:
        return codes
    rows = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little")
    return np.packbits(rows.reshape(-1), bitorder="little")


def _unpacked(raw: Bytes, bits: int, d: int) -> Bytes:
    if bits == 8:
        return raw
    rows = np.unpackbits(raw, count=bits * d, bitorder="little").reshape(d, bits)
    return np.packbits(rows, axis=1, bitorder="little").reshape(d)


def count_blocks(d: int, block: int | None) -> int:
    """Blocks of d numbers; without a length the whole vector is one, even an empty one."""
    return 1 if block is None else math.ceil(d / block)


def in_blocks(x: Floats, block: int | None) -> Floats:
    """The numbers as a matrix, a block in each row, zeros behind the last number."""
    if block is None:
        return x[None]
    matrix = np.zeros((count_blocks(len(x), block), block), dtype=x.dtype)
    matrix.reshape(-1)[: len(x)] = x
    return matrix


def for_each(scales: Doubles, part: slice, block: int | None) -> Doubles:
    """The scale of each number of a part, or one for all of them."""
    return scales if block is None else scales[np.arange(part.start, part.stop) // block]


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
