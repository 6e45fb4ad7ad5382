"""Signs and one size (EF-signSGD, Karimireddy et al., 2019); what the signs do not say is sent later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedtrip.codecs._packing import packed, packed_length, read_scales, scale_bytes, unpacked
from fedtrip.codecs.interface import Codec
from fedtrip.vectors import total


@dataclass(frozen=True)
class Sign(Codec):
    """x̂ = (‖x‖₁/d)·sign(x), sign(0) = +1; ⌈d/8⌉ + 4 bytes

    Departs from the official code: one scale for the vector, not for each tensor; its sign(0) = 0, which one bit
    cannot say.
    """

    title = "the signs and the mean size, with error feedback"
    coding, decoding = 1, 1

    feedback: bool = True
    """error feedback: the client keeps what the signs do not say and adds it to its next upload"""

    @property
    def keeps_error(self) -> bool:
        return self.feedback

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        values, scale = x.numpy(), np.array([total(x.abs()) / max(x.numel(), 1)]).astype(np.float32)
        signs = packed(len(values), 1, lambda part: (values[part] >= 0).astype(np.uint8))
        return torch.from_numpy(np.concatenate([scale_bytes(scale), signs]))

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        raw, result = payload.numpy(), np.empty(d, dtype=np.float32)
        scale = read_scales(raw, 1)
        for part, signs in unpacked(raw[4:], 1, d):
            result[part] = np.where(signs == 1, scale, -scale)
        return torch.from_numpy(result)

    def length(self, d: int) -> int:
        return packed_length(1, d) + 4
