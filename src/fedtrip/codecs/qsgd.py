"""QSGD (Alistarh et al., 2017): levels between 0 and the norm, rounded at random so that the mean is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.codecs._packing import (
    LARGEST,
    Bytes,
    count_blocks,
    for_each,
    in_blocks,
    packed,
    packed_length,
    read_scales,
    scale_bytes,
    unpacked,
)
from fedtrip.codecs.interface import Codec
from fedtrip.randomness import uniforms
from fedtrip.vectors import row_dots


@dataclass(frozen=True)
class Qsgd(Codec):
    """x̂ = ‖x‖·sign(x)·⌊s|x|/‖x‖ + u⌋/s, u uniform in [0, 1); ⌈d·⌈log₂(2s+1)⌉/8⌉ + 4 bytes

    A bucket is a part of the vector with a norm of its own: 4 bytes more for each. Without, the error grows with √d/s,
    and of a model's numbers nearly all become 0; the paper's experiments have buckets of 512.

    Departs from the paper: a code of fixed length in place of Elias', whose length depends on the data.
    """

    title = "s levels between 0 and the norm, unbiased; also qsgd:LEVELS:BUCKET"
    parameter = "levels"
    second_parameter = "bucket"
    coding, decoding = 2, 1

    levels: Annotated[int, Field(ge=1, le=127)] = 7
    """s, the levels beside 0"""
    bucket: Annotated[int, Field(ge=1)] | None = None
    """the numbers that have one norm; nothing: the whole vector"""

    @property
    def bits(self) -> int:
        """⌈log₂(2s+1)⌉, of one number."""
        return (2 * self.levels).bit_length()

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        values, s = x.numpy(), self.levels
        rows = torch.from_numpy(in_blocks(values, self.bucket))
        norms = np.sqrt(row_dots(rows, rows).numpy())
        # a norm that float32 does not hold: any number from max|x| serves as well, and this is the largest
        norms = np.where(np.isfinite(norms), np.minimum(norms, LARGEST), norms).astype(np.float32)

        def codes(part: slice) -> Bytes:
            each, sizes = for_each(norms.astype(np.float64), part, self.bucket), np.abs(values[part].astype(np.float64))
            usable = np.isfinite(each) & (each > 0)
            with np.errstate(invalid="ignore"):
                level = np.floor(s * sizes / np.where(usable, each, 1.0) + uniforms(rng, len(sizes)))
            level = np.where(usable, np.minimum(level, s), 0.0)
            return (s + np.where(values[part] < 0, -level, level)).astype(np.uint8)

        return torch.from_numpy(np.concatenate([scale_bytes(norms), packed(len(values), self.bits, codes)]))

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        raw, count, s = payload.numpy(), count_blocks(d, self.bucket), self.levels
        norms, result = read_scales(raw, count).astype(np.float64), np.empty(d, dtype=np.float32)
        for part, codes in unpacked(raw[4 * count :], self.bits, d):
            level = codes.astype(np.float64) - s
            if level.max() > s:
                raise ValueError(f"a level is {int(level.max())}; accepted: −{s} to {s}")
            result[part] = for_each(norms, part, self.bucket) * level / s
        return torch.from_numpy(result)

    def length(self, d: int) -> int:
        return packed_length(self.bits, d) + 4 * count_blocks(d, self.bucket)
