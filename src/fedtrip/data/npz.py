"""NumPy's .npz files, read without trusting them: no pickled objects, and no memory before the headers add up."""

from __future__ import annotations

import lzma
import math
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedtrip.data.memory import check_size
from fedtrip.errors import UserError, shortened

REQUIRED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("client_train",)
# What zipfile, its decompressors and NumPy raise about bytes that make no sense.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays x_train, y_train, x_test and y_test, and client_train if it is there."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path}: is not an .npz file (write one with numpy.savez)")
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            missing = [name for name in REQUIRED if name not in members]
            if missing:
                raise UserError(
                    f"{path}: lacks {', '.join(missing)}; it holds {shortened(', '.join(members)) or 'nothing'}"
                )
            wanted = [name for name in REQUIRED + OPTIONAL if name in members]
            check_size(path, "all arrays together", sum(members[name].file_size for name in wanted))
            for name in wanted:
                _check_member(path, name, archive, members[name])
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in wanted}
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(f"{path}: is damaged ({shortened(error)})") from error


def _check_member(path: Path, name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Compare an array's header with the member's size, which zipfile never reads beyond."""
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise UserError(f"{path}: {name} is written in version {version} of the npy format; 1.0 and 2.0 are read")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        if dtype.kind not in "biuf":
            kind = "pickled objects, which are never loaded" if dtype.hasobject else f"values of type {dtype}"
            raise UserError(f"{path}: {name} holds {kind}; numbers are needed")
        if not all(type(length) is int and length <= sys.maxsize for length in shape):
            raise UserError(f"{path}: the header of {name} has the impossible shape {shortened(shape)}")
        promised, stored = math.prod(shape) * dtype.itemsize, info.file_size - stream.tell()
        if promised != stored:
            raise UserError(f"{path}: the header of {name} promises {promised:,} bytes, but {stored:,} are stored")
