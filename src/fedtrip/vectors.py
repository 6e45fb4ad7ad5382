"""Named flat vectors: everything that travels, is kept or is averaged is one of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

Vectors = dict[str, Tensor]
"""Named flat vectors. A model is such a dict: `w` (all trainable parameters) and, if the module has them,
`buffers` (floating-point buffers, BatchNorm's statistics) and `counters` (integer buffers)."""


def size_in_bytes(vectors: Mapping[str, Tensor]) -> int:
    """The size of the arrays that travel."""
    return sum(vector.nbytes for vector in vectors.values())


def copied(vectors: Mapping[str, Tensor]) -> Vectors:
    """The vectors in memory of their own; one that has two names is copied once."""
    copies = {id(vector): vector.clone() for vector in vectors.values()}
    return {name: copies[id(vector)] for name, vector in vectors.items()}


def is_finite(vectors: Mapping[str, Tensor]) -> bool:
    """Whether every number is finite."""
    floats = [vector for vector in vectors.values() if vector.is_floating_point()]
    # a finite sum has finite terms; only where it is not (it may have overflowed) each number is looked at
    return all(math.isfinite(v.sum()) or bool(torch.isfinite(v).all()) for v in floats)


def state_sha256(state: Mapping[str, Tensor]) -> str:
    """A digest of names, shapes and bytes of a state dict: two models with the same digest are the same bits."""
    digest = hashlib.sha256()
    for name in sorted(state):
        for part in _digest_parts(name, state[name]):
            digest.update(part)
    return digest.hexdigest()


def _digest_parts(name: str, tensor: Tensor) -> Iterator[bytes]:
    yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
    yield tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
