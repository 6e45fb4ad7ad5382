"""Only some numbers travel, drawn at random; server and client draw the same places, so that these need not travel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.codecs.interface import Codec
from fedtrip.randomness import permutation


@dataclass(frozen=True)
class RandK(Codec):
    """k = ⌈ρd⌉ numbers at random places, times d/k without error feedback, times 1 with it; 4k bytes"""

    title = "numbers at random places; unbiased, or with error feedback"
    parameter = "share"
    decoding = 1

    share: Annotated[float, Field(gt=0, le=1)]
    """ρ, the share of the numbers that travel"""
    feedback: bool = False
    """error feedback: the client keeps what was not sent and adds it to its next upload"""

    @property
    def keeps_error(self) -> bool:
        return self.feedback

    def count(self, d: int) -> int:
        """k, how many of d numbers travel."""
        return math.ceil(self.share * d)

    def places(self, d: int, rng: np.random.Generator) -> np.ndarray:
        """k of the numbers 0 to d − 1, ascending: whoever has the generator draws the same."""
        return np.sort(permutation(rng, d)[: self.count(d)])

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        values = x.numpy()
        # what is not a number may lie at another place: all that is sent says so, and the server refuses it
        sent = values[self.places(len(values), rng)] if np.isfinite(values).all() else np.full_like(values, np.nan)
        return torch.from_numpy(np.frombuffer(sent[: self.count(len(values))].astype("<f4").tobytes(), np.uint8).copy())

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        values = np.frombuffer(payload.numpy().tobytes(), "<f4").astype(np.float64)
        factor = 1.0 if self.feedback else d / max(self.count(d), 1)
        result = np.zeros(d, dtype=np.float32)
        with np.errstate(over="ignore"):  # the server refuses what is not finite
            result[self.places(d, rng)] = (factor * values).astype(np.float32)
        return torch.from_numpy(result)

    def length(self, d: int) -> int:
        return 4 * self.count(d)
