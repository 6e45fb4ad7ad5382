"""A few bits a number with a scale for each block, so that one large number does not coarsen all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.codecs._integers import length_of_integers, pack_integers, unpack_integers
from fedtrip.codecs.interface import Codec


@dataclass(frozen=True)
class Int(Codec):
    """in blocks of β: σ = max|x|/L, L = 2^(b−1) − 1; q = ⌊x/σ + u⌋, clamped to ±L; x̂ = σ·q; ⌈bd/8⌉ + 4⌈d/β⌉ bytes"""

    title = "b bits a number and a scale for each block, unbiased; also int:BITS:BLOCK"
    parameter = "bits"
    second_parameter = "block"
    coding, decoding = 1, 1

    bits: Annotated[int, Field(ge=2, le=8)] = 4
    """b, the bits of a number"""
    block: Annotated[int, Field(ge=1)] = 256
    """β, the numbers that have one scale"""

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        return pack_integers(x, rng, self.bits, self.block)

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        return unpack_integers(payload, d, self.bits, self.block)

    def length(self, d: int) -> int:
        return length_of_integers(d, self.bits, self.block)
