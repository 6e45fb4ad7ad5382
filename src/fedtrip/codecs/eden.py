"""EDEN (Vargaftik et al., 2022): few bits a number after a random rotation; with one bit it is DRIVE (2021)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.codecs._packing import (
    Doubles,
    packed,
    packed_length,
    read_scales,
    scale_bytes,
    unpacked,
)
from fedtrip.codecs.interface import Codec
from fedtrip.randomness import uniforms
from fedtrip.vectors import total

BLOCK = 2**13
UPPER_POINTS = {
    1: (0.797884560803,),
    2: (0.452780034636, 1.510417608499),
    3: (0.245094178944, 0.756005281206, 1.343909278505, 2.151945704537),
    4: (
        0.128395029851, 0.388048299490, 0.656759118532, 0.942340456487,
        1.256231197347, 1.618046386022, 2.069017226531, 2.732589570995,
    ),
}  # fmt: skip
"""Of each number of bits the positive ones of the 2^b points that quantise a standard normal number with the least mean
square error (Lloyd and Max); the others are their negatives."""


@dataclass(frozen=True)
class Eden(Codec):
    """in blocks: y = HDx, ẑ the Lloyd-Max points next to y√n/‖y‖, S = ‖y‖²/⟨ẑ,y⟩; x̂ = DH(Sẑ); ⌈bd'/8⌉ + 4⌈d/n⌉ bytes

    D are random signs, H Hadamard's matrix over √n. n = 2^13; the last block is filled with zeros to a
    power of two, which makes d' numbers in all. With b = 1 this is DRIVE.

    Unbiased it is for a uniform rotation. Random signs and Hadamard's matrix are nearly one for most vectors; a bias of
    some per cent may stay.

    Departs from the paper: blocks, where it fills up the whole vector, to 131,072 numbers for the MLP's 79,510.
    """

    title = "b bits a number after a random rotation, nearly unbiased; eden:1 is DRIVE"
    parameter = "bits"
    coding, decoding = 17, 15

    bits: Annotated[int, Field(ge=1, le=4)] = 1
    """b, the bits of a number"""
    feedback: bool = False
    """error feedback: the client keeps what was lost and adds it to its next upload"""

    @property
    def keeps_error(self) -> bool:
        return self.feedback

    @property
    def points(self) -> Doubles:
        """The 2^b Lloyd-Max points, ascending."""
        upper = np.array(UPPER_POINTS[self.bits])
        return np.concatenate([-upper[::-1], upper])

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        values, points = x.numpy(), self.points
        borders = (points[1:] + points[:-1]) / 2
        scales, codes = [], np.empty(sum(_sizes(len(values))), dtype=np.uint8)
        with np.errstate(invalid="ignore", over="ignore"):
            for block in _blocks(len(values)):
                y = np.zeros(block.stop - block.start)
                y[: len(values[block])] = values[block]
                y = hadamard(y * _signs(rng, len(y)))
                square = _total(y * y)
                length = math.sqrt(square / len(y))
                # side "right": 0 goes to the positive point, as sign(0) = +1 does
                codes[block] = np.searchsorted(borders, y / length if 0 < length < math.inf else 0 * y, side="right")
                scales.append(square / _total(points[codes[block]] * y) if square else 0.0)
            sent = scale_bytes(np.array(scales).astype(np.float32))
        return torch.from_numpy(np.concatenate([sent, packed(len(codes), self.bits, lambda part: codes[part])]))

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        raw, sizes, points = payload.numpy(), _sizes(d), self.points
        scales, codes = read_scales(raw, len(sizes)), np.empty(sum(sizes), dtype=np.uint8)
        for part, found in unpacked(raw[4 * len(sizes) :], self.bits, len(codes)):
            codes[part] = found
        result = np.empty(len(codes), dtype=np.float32)
        with np.errstate(over="ignore"):  # the server refuses what is not finite
            for scale, block in zip(scales.astype(np.float64), _blocks(d), strict=True):
                result[block] = scale * hadamard(points[codes[block]]) * _signs(rng, block.stop - block.start)
        return torch.from_numpy(result[:d])

    def length(self, d: int) -> int:
        sizes = _sizes(d)
        return packed_length(self.bits, sum(sizes)) + 4 * len(sizes)


def hadamard(x: Doubles) -> Doubles:
    """H·x/√n, n a power of two: sums and differences in a fixed order, n·log₂ n of them. It is its own inverse."""
    y, half = x.copy(), 1
    while half < len(y):
        pairs = y.reshape(-1, 2, half)
        one, other = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        pairs[:, 0], pairs[:, 1] = one, other
        half *= 2
    return y / math.sqrt(len(y))


def _sizes(d: int) -> list[int]:
    """The numbers in each block, the last one's up to a power of two."""
    whole, rest = divmod(d, BLOCK)
    return [BLOCK] * whole + ([2 ** (rest - 1).bit_length()] if rest else [])


def _blocks(d: int) -> Iterator[slice]:
    """Where each block lies among the d' numbers."""
    sizes = _sizes(d)
    return (slice(BLOCK * number, BLOCK * number + size) for number, size in enumerate(sizes))


def _signs(rng: np.random.Generator, count: int) -> Doubles:
    return np.where(uniforms(rng, count) < 0.5, -1.0, 1.0)


def _total(x: Doubles) -> float:
    return total(torch.from_numpy(x))
