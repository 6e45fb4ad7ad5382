"""Named flat vectors: everything that travels, is kept or is averaged is one of them. And their arithmetic.

The functions here give the same bits on every CPU, with the compiled library and without it. So do torch's + − · /
on tensors, which round every operation once. Not the same everywhere are torch's sums, means, norms and products of
matrices, its sqrt, and what fuses a multiplication with an addition: `add(x, alpha=a)`, `addcmul`, `addcdiv`, `lerp`.

A sum is made in float64 in 16 lanes: lane i starts at 0 and takes the numbers i, i + 16, i + 32, … one after the other;
then lane i adds lane i + 8, of those lane i adds lane i + 4, then i + 2, then i + 1. Lane 0 is the sum.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtrip import fixed_math
from fedtrip.native import plain
from fedtrip.native.library import library

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


def axpy(y: Tensor, a: float, x: Tensor) -> Tensor:
    """y ← y + a·x in place, and y: the product is rounded, then the sum. a is first rounded to y's precision."""
    _check_same_shape(y, x)
    if not _is_here(y):
        return y.add_(x, alpha=a)
    native = _library_for(y, x)
    if native is not None:
        native.fedtrip_axpy(y.data_ptr(), a, x.data_ptr(), y.numel())
    else:
        plain.axpy(_flat_array(y), a, _flat_array(x))
    return y


def add_weighted(sums: Tensor, x: Tensor, weight: float) -> Tensor:
    """sums ← sums + weight·x in place in float64, and sums: the product is rounded, then the sum."""
    _check_same_shape(sums, x)
    native = _library_for(x) if sums.dtype is torch.float64 and sums.is_contiguous() else None
    if native is not None:
        native.fedtrip_add_weighted(sums.data_ptr(), x.data_ptr(), x.numel(), weight)
    else:
        plain.add_weighted(_flat_array(sums), _flat_array(x), weight)
    return sums


def total(x: Tensor) -> float:
    """Σ x_i in float64, in 16 lanes."""
    if (native := _library_for(x)) is not None:
        return float(native.fedtrip_total(x.data_ptr(), x.numel()))
    if (native := _library_for(x, dtype=torch.float64)) is not None:
        return float(native.fedtrip_total_double(x.data_ptr(), x.numel()))
    return plain.total(_flat_array(x))


def dot(x: Tensor, y: Tensor) -> float:
    """Σ x_i·y_i in float64, in 16 lanes."""
    _check_same_shape(x, y)
    if not _is_here(x):
        return float((x.double() * y).sum())
    native = _library_for(x, y)
    if native is not None:
        return float(native.fedtrip_dot(x.data_ptr(), y.data_ptr(), x.numel()))
    return plain.dot(_flat_array(x), _flat_array(y))


def norm(x: Tensor) -> float:
    """‖x‖ = √(Σ x_i²), in float64."""
    return math.sqrt(dot(x, x))


def square_root(x: Tensor, out: Tensor | None = None) -> Tensor:
    """√x_i, rounded right: torch's own differs from that in the last bit, and not on every CPU in the same numbers."""
    root = torch.empty_like(x) if out is None else out
    if not _is_here(x):
        return torch.sqrt(x, out=root)
    plain.square_root(x.detach().numpy(), root.numpy())
    return root


def row_dots(x: Tensor, y: Tensor) -> Tensor:
    """Σ_j x_ij·y_ij for each row i of two matrices, in float64, in 16 lanes."""
    _check_same_shape(x, y)
    native = _library_for(x, y)
    if native is None:
        return torch.from_numpy(plain.row_dots(x.detach().numpy(), y.detach().numpy()))
    dots = torch.empty(len(x), dtype=torch.float64)
    native.fedtrip_row_dots(x.data_ptr(), y.data_ptr(), *x.shape, dots.data_ptr())
    return dots


def row_products(x: Tensor, y: Tensor) -> Tensor:
    """x·yᵀ, Σ_k x_ik·y_jk for every row i of one matrix and j of the other, in float64, in 16 lanes."""
    if len(x) > len(y):
        return row_products(y, x).T
    dots = [row_dots(row.expand_as(y).contiguous(), y) for row in x]
    return torch.stack(dots) if dots else torch.zeros(0, len(y), dtype=torch.float64)


def softmax_rows(z: Tensor, temperature: float) -> Tensor:
    """e_ij/Σ_j e_ij with e_ij = exp(z_ij/T − max_j z_ij/T) for each row i of a matrix, in float64."""
    native = _library_for(z)
    if native is None:
        return torch.from_numpy(plain.softmax_rows(z.detach().numpy(), temperature))
    softmax = torch.empty(z.shape, dtype=torch.float64)
    native.fedtrip_softmax_rows(z.data_ptr(), *z.shape, temperature, softmax.data_ptr())
    return softmax


def sigmoid(x: Tensor) -> Tensor:
    """1/(1 + exp(−x_i)) in float64, from exp(−|x_i|), which cannot overflow."""
    small = _exp(-x.double().abs())
    return torch.where(x >= 0, 1.0, small) / (1.0 + small)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x_i)) in float64, as max(x_i, 0) + log(1 + exp(−|x_i|)), which cannot overflow."""
    small = _exp(-x.double().abs())
    return x.double().clamp(min=0) + torch.from_numpy(fixed_math.log(1.0 + small.numpy()))


def log_softmax_rows(z: Tensor) -> Tensor:
    """z_ij − log Σ_j exp(z_ij) for each row i of a matrix, in float64: the largest of a row has probability 1/Σ."""
    largest = softmax_rows(z, 1.0).amax(1, keepdim=True)
    logits = z.detach().double()
    return logits - logits.amax(1, keepdim=True) + torch.from_numpy(fixed_math.log(largest.numpy()))


def _exp(x: Tensor) -> Tensor:
    """exp(x_i) in float64: a polynomial, the same in the library and without it."""
    native = _library_for(x, dtype=torch.float64)
    if native is None:
        return torch.from_numpy(plain.exp(x.detach().numpy()))
    powers = torch.empty_like(x)
    native.fedtrip_exp_double(x.data_ptr(), x.numel(), powers.data_ptr())
    return powers


def _library_for(*vectors: Tensor, dtype: torch.dtype = torch.float32) -> ctypes.CDLL | None:
    """The compiled library, if it is there and these lie in memory as it reads them."""
    return library() if all(v.dtype is dtype and v.is_contiguous() for v in vectors) else None


def _is_here(vector: Tensor) -> bool:
    """Whether it is on the CPU; on a device, where a client's step is made, torch computes as it does there."""
    return vector.device.type == "cpu"


def _flat_array(vector: Tensor) -> np.ndarray[Any, Any]:
    """The numbers themselves as an array, not a copy: an error where they cannot be seen as one row."""
    return vector.detach().view(-1).numpy()


def _check_same_shape(one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape:
        raise ValueError(f"vectors of shapes {tuple(one.shape)} and {tuple(other.shape)}: they must have the same")


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
