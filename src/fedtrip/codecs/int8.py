"""Eight bits a number, rounded at random so that the mean is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedtrip.codecs.interface import Codec
from fedtrip.randomness import uniforms

LEVELS = 127


@dataclass(frozen=True)
class Int8(Codec):
    """σ = max|x|/127; q = ⌊x/σ + u⌋ with u uniform in [0, 1), clamped to ±127; x̂ = σ·q; d + 4 bytes"""

    title = "eight bits a number and one scale, unbiased"

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        scale = np.float32(float(x.abs().amax()) / LEVELS) if x.numel() else np.float32(0)
        if not np.isfinite(scale) or scale == 0:
            quantised = np.zeros(x.numel(), dtype=np.int8)
        else:
            shifted = np.floor(x.double().numpy() / np.float64(scale) + uniforms(rng, x.numel()))
            quantised = np.clip(shifted, -LEVELS, LEVELS).astype(np.int8)
        return torch.from_numpy(np.concatenate([np.frombuffer(scale.tobytes(), np.uint8), quantised.view(np.uint8)]))

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        raw = payload.numpy()
        scale = float(np.frombuffer(raw[:4].tobytes(), np.float32)[0])
        return torch.from_numpy(raw[4 : 4 + d].copy().view(np.int8)).to(torch.float32).mul_(scale)

    def length(self, d: int) -> int:
        return d + 4
