"""Whole numbers of b bits and a scale: what int8, int4 and int have in common.

    σ = max|x|/L of each block, L = 2^(b−1) − 1;    q = ⌊x/σ + u⌋, u uniform in [0, 1), clamped to ±L;    x̂ = σ·q

The mean of x̂ over u is x. The payload: the scales, then the q in two's complement.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedtrip.codecs._packing import (
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
from fedtrip.randomness import uniforms


def pack_integers(x: Tensor, rng: np.random.Generator, bits: int, block: int | None = None) -> Tensor:
    """The payload. Where a block holds what is not finite, so is its scale, and the server refuses that."""
    values, levels = x.numpy(), _levels(bits)
    sizes = np.abs(in_blocks(values, block)).max(axis=1, initial=0.0)
    scales = (sizes.astype(np.float64) / levels).astype(np.float32)

    def codes(part: slice) -> Bytes:
        each = for_each(scales.astype(np.float64), part, block)
        usable = np.isfinite(each) & (each > 0)
        with np.errstate(invalid="ignore"):
            quotients = values[part].astype(np.float64) / np.where(usable, each, 1.0)
        shifted = np.floor(quotients + uniforms(rng, len(quotients)))
        whole = np.where(usable, np.clip(shifted, -levels, levels), 0.0).astype(np.int8)
        return whole.view(np.uint8) & np.uint8((1 << bits) - 1)  # two's complement

    return torch.from_numpy(np.concatenate([scale_bytes(scales), packed(len(values), bits, codes)]))


def unpack_integers(payload: Tensor, d: int, bits: int, block: int | None = None) -> Tensor:
    """σ·q; raises `ValueError` for a scale or a q that cannot be."""
    raw, count, levels = payload.numpy(), count_blocks(d, block), _levels(bits)
    scales, result = read_scales(raw, count).astype(np.float64), np.empty(d, dtype=np.float32)
    for part, codes in unpacked(raw[4 * count :], bits, d):
        signed = codes.astype(np.int16)
        whole = np.where(signed > levels, signed - (1 << bits), signed)
        if int(whole.min()) < -levels:
            raise ValueError(f"a number is {int(whole.min())} steps; accepted: −{levels} to {levels}")
        with np.errstate(over="ignore"):  # the server refuses what is not finite
            result[part] = whole * for_each(scales, part, block)
    return torch.from_numpy(result)


def length_of_integers(d: int, bits: int, block: int | None = None) -> int:
    """⌈bd/8⌉ + 4 for each block."""
    return packed_length(bits, d) + 4 * count_blocks(d, block)


def _levels(bits: int) -> int:
    return (1 << (bits - 1)) - 1
