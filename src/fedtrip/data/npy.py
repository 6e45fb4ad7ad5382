"""NumPy's .npy files, one array each: headers are checked first, then the arrays are mapped and never copied."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedtrip.errors import UserError, shortened

REQUIRED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("client_train", "client_test")
INPUTS = ("x_train", "x_test")
"""Of several inputs each is an array of its own, `x_train.NAME`."""


def wanted_of(place: Path, names: list[str]) -> list[str]:
    """Those of the arrays that are read; all that are needed must be there."""
    several = [name for name in names if name.partition(".")[0] in INPUTS and "." in name]
    given = {*names, *(name.partition(".")[0] for name in several)}
    missing = [name for name in REQUIRED if name not in given]
    if missing:
        raise UserError(f"{place}: lacks {', '.join(missing)}; it holds {shortened(', '.join(names)) or 'nothing'}")
    return [name for name in (*REQUIRED, *several, *OPTIONAL) if name in names]


def check_header(path: Path, name: str, stream: IO[bytes], size: int) -> None:
    """Compare an array's header with the bytes that are stored: all that will be read, and nothing but numbers."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise UserError(f"{path}: {name} is written in version {version} of the npy format; 1.0 and 2.0 are read")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.kind not in "biuf":
        kind = "pickled objects, which are never loaded" if dtype.hasobject else f"values of type {dtype}"
        raise UserError(f"{path}: {name} holds {kind}; numbers are needed")
    if not all(type(length) is int and 0 <= length <= sys.maxsize for length in shape):
        raise UserError(f"{path}: the header of {name} has the impossible shape {shortened(shape)}")
    promised, stored = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if promised != stored:
        raise UserError(f"{path}: the header of {name} promises {promised:,} bytes, but {stored:,} are stored")


def read_npy_folder(folder: Path) -> dict[str, NDArray[Any]]:
    """The arrays x_train.npy (or x_train.NAME.npy of several inputs), y_train.npy, x_test.npy and y_test.npy, and
    client_train.npy and client_test.npy if they are there, mapped into memory."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    files = {path.name.removesuffix(".npy"): path for path in sorted(folder.glob("*.npy")) if path.is_file()}
    return {name: _mapped(files[name], name) for name in wanted_of(folder, list(files))}


def _mapped(path: Path, name: str) -> NDArray[Any]:
    try:
        with path.open("rb") as stream:
            check_header(path, name, stream, path.stat().st_size)
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except UserError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: is damaged ({shortened(error)})") from error
    return mapped
