"""Data sets: by name, from files, or from arrays in memory.

The names are imported when first used, because most of them bring PyTorch along and `fedtrip data list` needs none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedtrip.data.acquire import obtain
    from fedtrip.data.arrays import from_arrays, from_clients
    from fedtrip.data.catalog import KNOWN_SETS, known_set
    from fedtrip.data.dataset import DataSet
    from fedtrip.data.entry import KnownSet
    from fedtrip.data.integrity import FileCheck, verify
    from fedtrip.data.load import load_dataset
    from fedtrip.data.locate import find_set
    from fedtrip.data.torch_datasets import from_datasets

__all__ = [
    "KNOWN_SETS",
    "DataSet",
    "FileCheck",
    "KnownSet",
    "find_set",
    "from_arrays",
    "from_clients",
    "from_datasets",
    "known_set",
    "load_dataset",
    "obtain",
    "verify",
]

_MODULES = {
    "KNOWN_SETS": "catalog",
    "DataSet": "dataset",
    "FileCheck": "integrity",
    "KnownSet": "entry",
    "find_set": "locate",
    "from_arrays": "arrays",
    "from_clients": "arrays",
    "from_datasets": "torch_datasets",
    "known_set": "catalog",
    "load_dataset": "load",
    "obtain": "acquire",
    "verify": "integrity",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
