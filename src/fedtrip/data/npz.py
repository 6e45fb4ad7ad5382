"""NumPy's .npz files, read without trusting them: no pickled objects, and no memory before the headers add up."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtrip.data.memory import check_size
from fedtrip.data.npy import check_header, wanted_of
from fedtrip.errors import UserError, shortened

# What zipfile, its decompressors and NumPy raise about bytes that make no sense.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays x_train (or x_train.NAME of several inputs), y_train, x_test and y_test, and client_train and
    client_test if they are there."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path}: is not an .npz file (write one with numpy.savez)")
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            wanted = wanted_of(path, list(members))
            check_size(path, "all arrays together", sum(members[name].file_size for name in wanted))
            for name in wanted:
                with archive.open(members[name]) as stream:  # zipfile never reads beyond the member's size
                    check_header(path, name, stream, members[name].file_size)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in wanted}
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(f"{path}: is damaged ({shortened(error)})") from error


def inputs_of(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """One input, or several by name."""
    if name in arrays:
        return arrays[name]
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
