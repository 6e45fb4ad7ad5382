"""The idx format of MNIST: a header with the type and the dimensions, then the bytes; plain or gzip-compressed.

    0x00 0x00 TYPE NDIM | NDIM big-endian uint32 dimensions | product(dimensions) values

The header is checked against what the file can hold before any memory is asked for.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from fedtrip.data.memory import check_size
from fedtrip.errors import UserError

_UINT8 = 0x08
_TYPES = {0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_GZIP_MAGIC = b"\x1f\x8b"
_DEFLATE_RATIO = 1_032  # no deflate stream grows by more
_CHUNK = 1 << 20


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of an idx file of uint8, in the header's shape. Raises UserError naming the file and what is wrong."""
    with _opened(path) as stream:
        shape = _read_header(path, stream)
        values = np.empty(math.prod(shape), dtype=np.uint8)
        filled = 0
        for chunk in _content(path, stream, values.size):
            values[filled : filled + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            filled += len(chunk)
    return values.reshape(shape)


def check_idx(path: Path) -> tuple[int, ...]:
    """Read an idx file to its end without keeping it, gzip's own checksum included; return the header's shape."""
    with _opened(path) as stream:
        shape = _read_header(path, stream)
        for _ in _content(path, stream, math.prod(shape)):
            pass
    return shape


def read_images(path: Path) -> NDArray[np.uint8]:
    """Images of (n, H, W) or (n, C, H, W) as (n, C, H, W)."""
    images = read_idx(path)
    if images.ndim not in (3, 4):
        raise UserError(
            f"{path}: has {images.ndim} dimensions; images need 3 (n, height, width) or 4 (n, channels, height, width)"
        )
    return images[:, None] if images.ndim == 3 else images


def read_labels(path: Path, count: int) -> NDArray[np.uint8]:
    """The labels that belong to `count` images."""
    labels = read_idx(path)
    if labels.ndim != 1:
        raise UserError(f"{path}: has {labels.ndim} dimensions; labels need 1")
    if len(labels) != count:
        raise UserError(f"{path}: holds {len(labels):,} labels for {count:,} images")
    return labels


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file's unpacked bytes; what gzip or the system says about a bad file becomes a UserError."""
    try:
        with path.open("rb") as raw:
            start = raw.read(2)
            raw.seek(0)
            if path.suffix == ".gz" and start != _GZIP_MAGIC:
                raise UserError(f"{path}: is not a gzip file, though named so (it starts with {start!r})")
            if path.suffix != ".gz" and start == _GZIP_MAGIC:
                raise UserError(f"{path}: is gzip-compressed; name it '{path.name}.gz'")
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: the gzip data are truncated or damaged ({error})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def _read_header(path: Path, stream: BinaryIO) -> tuple[int, ...]:
    """The dimensions, after checking that the file can hold what they promise."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\x00\x00":
        raise UserError(f"{path}: is not an idx file (it starts with {magic!r} instead of two zero bytes)")
    kind, dimensions = magic[2], magic[3]
    if kind != _UINT8:
        named = _TYPES.get(kind, "unknown")
        raise UserError(f"{path}: holds values of type 0x{kind:02x} ({named}); only 0x08 (uint8) is read")
    if not 1 <= dimensions <= 4:
        raise UserError(f"{path}: has {dimensions} dimensions; 1 to 4 are read")
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise UserError(f"{path}: ends within its header")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", sizes)
    if 0 in shape:
        raise UserError(f"{path}: is empty (its dimensions are {_times(shape)})")
    promised, stored = math.prod(shape), path.stat().st_size
    header = 4 + 4 * dimensions
    possible = stored * _DEFLATE_RATIO if path.suffix == ".gz" else stored - header
    if promised > possible or (path.suffix != ".gz" and promised < possible):
        raise UserError(
            f"{path}: its header promises {_times(shape)} = {promised:,} bytes, "
            f"but the file of {stored:,} bytes holds {'at most ' if path.suffix == '.gz' else ''}{possible:,}"
        )
    check_size(path, f"an array of {_times(shape)}", promised)
    return shape


def _content(path: Path, stream: BinaryIO, promised: int) -> Iterator[bytes]:
    """Exactly the promised bytes, in pieces; never more than one byte beyond them is unpacked."""
    left = promised
    while left:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            raise UserError(f"{path}: is truncated: {promised - left:,} of {promised:,} bytes are there")
        left -= len(chunk)
        yield chunk
    if stream.read(1):
        raise UserError(f"{path}: goes on after the {promised:,} bytes that its header promises")


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(f"{size:,}" for size in shape)
