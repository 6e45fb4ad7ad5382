"""Federated learning on non-IID data: which method needs the fewest rounds, bytes and FLOPs on yours.

    import fedtrip
    result = fedtrip.run(fedtrip.Experiment(method="fedtrip", rounds=20))
    result.rounds_to(0.9)

The names are imported when first used, because most of them bring PyTorch along.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedtrip._version import __version__

if TYPE_CHECKING:
    from fedtrip.api.comparisons import Comparison, compare
    from fedtrip.api.runs import evaluate, load, run
    from fedtrip.api.tuning import Tuning, tune
    from fedtrip.comparison.client_device import ClientDevice
    from fedtrip.data import DataSet, from_arrays, from_clients, from_datasets, load_dataset
    from fedtrip.errors import StopRun, UserError
    from fedtrip.experiment.description import Experiment
    from fedtrip.methods.interface import (
        Affine,
        Attaching,
        Batch,
        BatchGradient,
        BatchLoss,
        Choices,
        ClosedLoss,
        Correction,
        CostSymbols,
        CountedLoss,
        Direction,
        GradientAt,
        Hidden,
        Local,
        Memory,
        Method,
        Range,
        Reply,
        Server,
        Upload,
        Uploads,
    )
    from fedtrip.rounds.record import RoundRecord
    from fedtrip.runs.on_round import ModelView
    from fedtrip.runs.result import Result
    from fedtrip.runs.stored import load_result
    from fedtrip.vectors import Vectors

_PLACES = {
    "fedtrip.api.runs": ("evaluate", "load", "run"),
    "fedtrip.runs.stored": ("load_result",),
    "fedtrip.api.comparisons": ("Comparison", "compare"),
    "fedtrip.api.tuning": ("Tuning", "tune"),
    "fedtrip.comparison.client_device": ("ClientDevice",),
    "fedtrip.data": ("DataSet", "from_arrays", "from_clients", "from_datasets", "load_dataset"),
    "fedtrip.errors": ("StopRun", "UserError"),
    "fedtrip.experiment.description": ("Experiment",),
    "fedtrip.methods.interface": (
        "Affine", "Attaching", "Batch", "BatchGradient", "BatchLoss", "Choices", "ClosedLoss", "Correction",
        "CostSymbols", "CountedLoss", "Direction", "GradientAt", "Hidden", "Local", "Memory", "Method", "Range",
        "Reply", "Server", "Upload", "Uploads",
    ),
    "fedtrip.runs.on_round": ("ModelView",),
    "fedtrip.runs.result": ("Result",),
    "fedtrip.vectors": ("Vectors",),
    "fedtrip.rounds.record": ("RoundRecord",),
}  # fmt: skip
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [
    "Affine",
    "Attaching",
    "Batch",
    "BatchGradient",
    "BatchLoss",
    "Choices",
    "ClientDevice",
    "ClosedLoss",
    "Comparison",
    "Correction",
    "CostSymbols",
    "CountedLoss",
    "DataSet",
    "Direction",
    "Experiment",
    "GradientAt",
    "Hidden",
    "Local",
    "Memory",
    "Method",
    "ModelView",
    "Range",
    "Reply",
    "Result",
    "RoundRecord",
    "Server",
    "StopRun",
    "Tuning",
    "Upload",
    "Uploads",
    "UserError",
    "Vectors",
    "__version__",
    "compare",
    "evaluate",
    "from_arrays",
    "from_clients",
    "from_datasets",
    "load",
    "load_dataset",
    "load_result",
    "run",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'fedtrip' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACE_OF[name]), name)


def __dir__() -> list[str]:
    """What one may use, before any of it is imported."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
