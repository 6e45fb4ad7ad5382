"""Small data, small models, and the command line as a function."""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from torch import nn

IDX_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

# No property depends on how busy the machine is.
settings.register_profile("fedtrip", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fedtrip")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def fedtrip(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Run `fedtrip ARGUMENTS` through its real entry point, in this process, on a terminal of 80 columns."""
    from fedtrip.cli import console, main

    for stream in (console.out, console.err):
        monkeypatch.setattr(stream, "_width", 80)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["fedtrip", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(ended.value.code or 0, captured.out, captured.err)

    return call


@pytest.fixture
def fresh_library() -> Iterator[None]:
    """The native library is looked for anew in this test, and again after it."""
    from fedtrip.native import library

    library._load.cache_clear()
    yield
    library._load.cache_clear()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def blobs() -> dict[str, np.ndarray]:
    """Three classes in six dimensions that are easy to tell apart: 90 samples to learn from, 30 to test."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(3, 6)) * 2
    labels = np.arange(120) % 3
    inputs = (centres[labels] + random.normal(size=(120, 6))).astype(np.float32)
    return {"x_train": inputs[:90], "y_train": labels[:90], "x_test": inputs[90:], "y_test": labels[90:]}


@pytest.fixture
def images() -> dict[str, np.ndarray]:
    """Colour images of random pixels, 3×32×32, in four classes."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (44, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(44) % 4
    return {"x_train": pixels[:32], "y_train": labels[:32], "x_test": pixels[32:], "y_test": labels[32:]}


def idx_bytes(values: np.ndarray) -> bytes:
    """An array of uint8 in the idx format."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def write_idx_set() -> Callable[..., dict[str, np.ndarray]]:
    """Write four small idx files named like MNIST's and return what they hold."""

    def write(
        folder: Path,
        *,
        prefix: str = "",
        test: str = "t10k",
        classes: int = 10,
        first_label: int = 0,
        packed: bool = True,
        samples: tuple[int, int] = (30, 12),
    ) -> dict[str, np.ndarray]:
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(0)
        arrays = {}
        for name in IDX_NAMES:
            count = samples[not name.startswith("train")]
            labels = np.arange(count) % classes + first_label
            values = labels.astype(np.uint8) if "labels" in name else random.integers(0, 256, (count, 28, 28), np.uint8)
            arrays[name] = values
            path = folder / (prefix + name.replace("t10k", test))
            if packed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(idx_bytes(values)))
            else:
                path.write_bytes(idx_bytes(values))
        return arrays

    return write


@pytest.fixture
def batch_norm_model() -> nn.Module:
    """A model of a user's own, with BatchNorm and dropout, for `blobs`."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def listing() -> Callable[[Path], dict[str, bytes | None]]:
    return contents
