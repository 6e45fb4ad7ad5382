"""Only the largest numbers travel; what stays behind is sent later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.codecs.interface import Codec


@dataclass(frozen=True)
class TopK(Codec):
    """the k = ⌈ρd⌉ largest |x|, ties to the lower index; 4 + 4k + min(4k, ⌈d/8⌉) bytes"""

    title = "only the largest numbers of each vector, with error feedback"
    parameter = "share"

    share: Annotated[float, Field(gt=0, le=1)]
    """ρ, the share of the numbers that travel"""
    feedback: bool = True
    """error feedback: the client keeps what was not sent and adds it to its next upload"""

    @property
    def keeps_error(self) -> bool:
        return self.feedback

    def count(self, d: int) -> int:
        """k, how many of d numbers travel."""
        return math.ceil(self.share * d)

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        values = x.numpy()
        d, k = len(values), self.count(len(values))
        sizes = np.abs(values)
        # not a number sorts last: it is sent, so that the server can refuse it
        order = np.argsort(-np.where(np.isnan(sizes), np.inf, sizes), kind="stable")
        places = np.sort(order[:k]).astype(np.uint32)
        head = np.frombuffer(np.uint32(k).tobytes(), np.uint8)
        where = _bits(places, d) if _as_bits(d, k) else places.view(np.uint8)
        return torch.from_numpy(np.concatenate([head, values[places].view(np.uint8), where]))

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        raw, k = payload.numpy(), self.count(d)
        if int(raw[:4].copy().view(np.uint32)[0]) != k:
            raise ValueError(f"{int(raw[:4].copy().view(np.uint32)[0])} numbers are announced instead of {k}")
        values, where = raw[4 : 4 + 4 * k].copy().view(np.float32), raw[4 + 4 * k :].copy()
        places = np.flatnonzero(np.unpackbits(where, count=d)) if _as_bits(d, k) else where.view(np.uint32)
        if len(places) != k or (k and int(places[-1]) >= d) or bool((places[1:] <= places[:-1]).any()):
            raise ValueError("the places of its numbers cannot be")
        result = np.zeros(d, dtype=np.float32)
        result[places] = values
        return torch.from_numpy(result)

    def length(self, d: int) -> int:
        k = self.count(d)
        return 4 + 4 * k + min(4 * k, math.ceil(d / 8))


def _as_bits(d: int, k: int) -> bool:
    """Whether one bit for each of d numbers says shorter than k indices which ones travel."""
    return math.ceil(d / 8) < 4 * k


def _bits(places: np.ndarray, d: int) -> np.ndarray:
    marks = np.zeros(d, dtype=bool)
    marks[places] = True
    return np.packbits(marks)
