"""Eight bits a number, rounded at random so that the mean is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedtrip.codecs._integers import length_of_integers, pack_integers, unpack_integers
from fedtrip.codecs.interface import Codec


@dataclass(frozen=True)
class Int8(Codec):
    """σ = max|x|/127; q = ⌊x/σ + u⌋ with u uniform in [0, 1), clamped to ±127; x̂ = σ·q; d + 4 bytes"""

    title = "eight bits a number and one scale, unbiased"
    coding, decoding = 1, 1

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        return pack_integers(x, rng, bits=8)

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        return unpack_integers(payload, d, bits=8)

    def length(self, d: int) -> int:
        return length_of_integers(d, bits=8)
