"""Writes the safetensors format for what is written every round: the library's own function costs twice the time of
the writing itself, because it copies, writes to a temporary file of its own and renames that."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

_TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
_ALIGNMENT = 8


def save_file(vectors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """Write contiguous tensors: the length of the header, the header in JSON, then the numbers one after the other."""
    if any(vector.dtype not in _TYPES for vector in vectors.values()):
        safetensors.torch.save_file(dict(vectors), path, metadata=dict(metadata))
        return
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    parts: list[memoryview | bytes] = []
    end = 0
    # the wider types first, so that each number lies at a multiple of its size
    for name, vector in sorted(vectors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        begin, end = end, end + vector.numel() * vector.element_size()
        header[name] = {"dtype": _TYPES[vector.dtype], "shape": list(vector.shape), "data_offsets": [begin, end]}
        if vector.numel():
            parts.append(raw_bytes(vector))
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % _ALIGNMENT)
    with path.open("wb", buffering=0) as file:
        _write_all(file.fileno(), [len(described).to_bytes(8, "little"), described, *parts])


def raw_bytes(vector: Tensor) -> memoryview:
    """The numbers of a contiguous tensor as they lie in memory."""
    return vector.detach().reshape(-1).view(torch.uint8).numpy().data


def _write_all(descriptor: int, parts: list[memoryview | bytes]) -> None:
    """All parts in as few calls as the system takes."""
    while parts:
        written = os.writev(descriptor, parts[:64])
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if written:
            parts[0] = memoryview(parts[0])[written:]
