"""Uploads as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedtrip.codecs.interface import Codec, StreamOf
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class NoCodec(Codec):
    """float32, 4d bytes"""

    title = "uploads as they are, in float32"
    is_identity = True

    def encode(
        self,
        upload: Vectors,
        reference: Mapping[str, Tensor],
        kept: Vectors,
        stream_of: StreamOf,
    ) -> tuple[Vectors, Vectors]:
        return upload, {}

    def decode(
        self,
        payload: Vectors,
        reference: Mapping[str, Tensor],
        expected: Vectors,
        stream_of: StreamOf,
    ) -> Vectors:
        return payload
