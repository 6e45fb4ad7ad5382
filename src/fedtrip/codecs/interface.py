"""What a codec is: how a vector becomes bytes, and back. What is the same for all of them is here.

Coded is the difference Δ to what the client received (to zero where it received nothing of that name), and only what
a method sends as floating-point parameters: a model's buffers travel as they are. A coded vector travels as a uint8
vector of exactly the codec's length. With error feedback the client adds what the codec lost last time,

    x = Δ + e,     e ← x − decode(encode(x)),

so that in the sum over rounds nothing is lost. The residual e is kept as the client's memory is: a client whose upload
was refused or lost keeps the older one.

What is not finite must not become finite on the way: `unpack` gives something that is not finite either, or raises
`ValueError`. Both are refused by the server, and so is every payload that `pack` cannot have made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fedtrip.registry import Rule
from fedtrip.vectors import Vectors

UNCODED = ("buffers", "counters")
"""A module's own statistics: they are few, and a rounded variance may turn negative."""

StreamOf = Callable[[str], np.random.Generator]
"""The random generator for the vector of a name: the same at the client and at the server."""


@dataclass(frozen=True)
class Codec(Rule):
    """Base of the codecs: a rule says how one float32 vector becomes bytes (`pack`, `unpack`, `length`)."""

    is_identity: ClassVar[bool] = False
    """Whether uploads travel as they are."""
    coding: ClassVar[int] = 0
    """Multiply-adds of `pack` for each number of a vector; comparisons and draws do not count."""
    decoding: ClassVar[int] = 0
    """Multiply-adds of `unpack` for each number of a vector."""

    @property
    def keeps_error(self) -> bool:
        """Whether the client keeps what was lost and adds it to its next upload."""
        return False

    def pack(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """x as a uint8 vector of `length(len(x))` bytes."""
        raise NotImplementedError

    def unpack(self, payload: Tensor, d: int, rng: np.random.Generator) -> Tensor:
        """The float32 vector of d numbers that `pack` with the same generator made these bytes of, up to its error."""
        raise NotImplementedError

    def length(self, d: int) -> int:
        """Exact bytes of a coded vector of d numbers."""
        raise NotImplementedError

    def encode(
        self, upload: Vectors, reference: Mapping[str, Tensor], kept: Vectors, stream_of: StreamOf
    ) -> tuple[Vectors, Vectors]:
        """What travels in place of the upload, and the residuals that the client keeps."""
        payload, residuals = dict(upload), dict(kept)
        for name in filter(_is_coded(upload), upload):
            x = upload[name] - reference[name] if name in reference else upload[name]
            x = x.reshape(-1).to(torch.float32)
            if self.keeps_error and name in kept:
                x = x + kept[name]
            payload[name] = self.pack(x, stream_of(name))
            if self.keeps_error:
                try:
                    residuals[name] = x - self.unpack(payload[name], x.numel(), stream_of(name))
                except ValueError:  # what cannot be decoded here, the server refuses: the older residual stays
                    continue
        return payload, residuals

    def kept_bytes(self, upload: Mapping[str, Tensor]) -> int:
        """Bytes of the residuals, in float32, that a client keeps of such uploads."""
        return 4 * _coded_numbers(upload) if self.keeps_error else 0

    def client_operations(self, upload: Mapping[str, Tensor]) -> int:
        """Multiply-adds of encoding such an upload: the difference Δ and `pack`; with error feedback also `unpack`,
        and adding and taking the residual."""
        each = 1 + self.coding + (2 + self.decoding if self.keeps_error else 0)
        return 0 if self.is_identity else each * _coded_numbers(upload)

    def server_operations(self, upload: Mapping[str, Tensor]) -> int:
        """Multiply-adds of decoding such an upload: `unpack`, and adding what the client received."""
        return 0 if self.is_identity else (1 + self.decoding) * _coded_numbers(upload)

    def decode(
        self, payload: Vectors, reference: Mapping[str, Tensor], expected: Vectors, stream_of: StreamOf
    ) -> Vectors:
        """The upload as the server sees it; raises `ValueError` for a payload that cannot be one."""
        upload = dict(payload)
        for name in filter(_is_coded(expected), payload):
            d, coded = expected[name].numel(), payload[name]
            if coded.dtype != torch.uint8 or coded.shape != (self.length(d),):
                told = f"{tuple(coded.shape)} of {coded.dtype}"
                raise ValueError(f"'{name}' is {told} instead of {self.length(d)} bytes")
            try:
                difference = self.unpack(coded, d, stream_of(name)).reshape(expected[name].shape)
            except ValueError as problem:
                raise ValueError(f"'{name}': {problem}") from None
            upload[name] = reference[name] + difference if name in reference else difference
        return upload


def _coded_numbers(like: Mapping[str, Tensor]) -> int:
    """Numbers of all vectors that are coded."""
    return sum(like[name].numel() for name in filter(_is_coded(like), like))


def _is_coded(like: Mapping[str, Tensor]) -> Callable[[str], bool]:
    return lambda name: name in like and name not in UNCODED and like[name].is_floating_point()
