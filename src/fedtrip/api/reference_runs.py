"""Small runs whose final models are known to the last bit: any machine can check itself with them.

`reference_runs.json` has the SHA-256 of each one's model, made once (`python -m tools.reference_runs`). The runs are
computed by the native engine, and their data and initial weights are drawn by fedtrip itself or come with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch
from torch import nn

from fedtrip.api.runs import run
from fedtrip.data import DataSet, from_arrays
from fedtrip.experiment.description import Experiment
from fedtrip.families import METHOD
from fedtrip.models.initial import draw_initial_weights
from fedtrip.randomness import stream, uniforms

FILE = "reference_runs.json"
SMALL = {"rounds": 3, "clients": 5, "per_round": 3, "compute": "native", "seed": 7}


@dataclass(frozen=True)
class ReferenceRun:
    """One run: what its experiment says, and the module and data that it is given, if they are not named there."""

    fields: dict[str, Any]
    module: Callable[[], nn.Module] | None = None
    images: bool = False

    def sha256(self) -> str:
        """Run it here, in this process; the SHA-256 of its final model."""
        result = run(
            Experiment(**(SMALL | self.fields)),
            model=self.module() if self.module is not None else None,
            data=_images() if self.images else None,
            workers=1,
        )
        return result.model_sha256


def _images() -> DataSet:
    """300 training and 60 test images of 28 × 28 random pixels: what is in them does not matter to a bit."""
    numbers = uniforms(stream(7, "reference images"), 360 * 28 * 28)
    pixels = torch.from_numpy((numbers * 256).astype("uint8")).view(360, 1, 28, 28)
    labels = torch.arange(360) % 10
    return from_arrays(pixels[:300], labels[:300], pixels[300:], labels[300:])


def _every_layer() -> nn.Module:
    """A chain with everything that the built-in models have not: strides, padding, averages, tanh and dropout."""
    module = nn.Sequential(
        nn.Conv2d(1, 7, (5, 3), stride=2, padding=(2, 1)), nn.Tanh(), nn.AvgPool2d(3, 2, padding=1), nn.Dropout(0.2),
        nn.Conv2d(7, 9, 3, padding=2, bias=False), nn.MaxPool2d(3, 2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(9 * 4 * 4, 33), nn.Tanh(), nn.Linear(33, 10),
    )  # fmt: skip
    draw_initial_weights(module, seed=7)
    return module


def reference_runs() -> dict[str, ReferenceRun]:
    """Every method on digits; the CNN; every kind of layer; the other rules that have arithmetic of their own."""
    runs = {f"digits, mlp, {name}": ReferenceRun({"method": name}) for name in METHOD.names()}
    for name in ("fedtrip", "moon"):
        runs[f"images, cnn, {name}"] = ReferenceRun({"method": name, "model": "cnn", "rounds": 2}, images=True)
    runs["images, every kind of layer"] = ReferenceRun({"method": "fedavg"}, _every_layer, images=True)
    others: dict[str, dict[str, Any]] = {
        "adam, cosine, clip": {"optimizer": "adam", "lr_schedule": "cosine", "clip": "1"},
        "adamw, exponential, weight decay": {
            "optimizer": "adamw", "lr_schedule": "exponential:0.9", "weight_decay": 0.01,
        },
        "topk, adam on the server": {"upload_codec": "topk:0.1", "server_optimizer": "adam"},
        "int8, momentum on the server": {"upload_codec": "int8", "server_optimizer": "momentum"},
        "eden with feedback": {"upload_codec": {"name": "eden:2", "feedback": True}},
        "qsgd in buckets": {"upload_codec": "qsgd:7:512"},
        "sign": {"upload_codec": "sign"},
        "median, weighted selection": {"combine": "median", "select": "weighted", "partition": "orthogonal:2"},
        "trimmed mean, yogi on the server": {"combine": "trimmed:0.34", "server_optimizer": "yogi", "partition": "iid"},
    }  # fmt: skip
    return runs | {
        f"digits, mlp, {name}": ReferenceRun({"method": "fedavg", **fields}) for name, fields in others.items()
    }


def known_bits() -> dict[str, str]:
    """The committed SHA-256 of every reference run."""
    known: dict[str, str] = json.loads(resources.files("fedtrip.api").joinpath(FILE).read_text(encoding="utf-8"))
    return known


def checked() -> Iterator[tuple[str, bool]]:
    """Each reference run's name, and whether its model is the known one here."""
    known = known_bits()
    for name, reference in reference_runs().items():
        yield name, reference.sha256() == known.get(name)
