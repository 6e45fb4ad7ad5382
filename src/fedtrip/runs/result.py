"""What a run gave: its history and the trained model."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from fedtrip._version import __version__
from fedtrip.errors import UserError
from fedtrip.runs.history import History
from fedtrip.tasks.interface import ACCURACY
from fedtrip.training.predictor import Predictor
from fedtrip.training.trained_state import load_trained_state, without_frozen
from fedtrip.vectors import state_sha256

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, repr=False)
class Result(History):
    """A finished run."""

    state: dict[str, Tensor]
    """the final global model, as a state dict; of a stored run with a frozen base that has the base's digest in its
    place, and `module` is whole"""
    build: Callable[[], nn.Module]
    frozen: frozenset[str] = field(default=frozenset(), kw_only=True)
    """the parameters in `state` that were not trained: they are not stored"""

    @property
    def module(self) -> nn.Module:
        """The trained module, in evaluation mode. It wants normalised inputs; `predictor` takes them as they come."""
        module = self.build()
        load_trained_state(module, self.state)
        return module.eval()

    def predictor(self) -> Predictor:
        """The trained module with the normalisation in front of it, in evaluation mode, for inputs as they come.

        These are uint8 pixels, or floats as the data set has them, of shape (n, *sample_shape). It is an `nn.Module`
        for use elsewhere: `torch.jit`, `torch.export` and `torch.onnx` take it if they take the module.
        """
        mean, std = self.experiment.mean, self.experiment.std
        if mean is None or std is None:
            raise UserError("the experiment has no mean and std; accepted: the result of a run, or of a stored one")
        return Predictor(self.module, mean, std).eval()

    @property
    def model_sha256(self) -> str:
        """Digest of the final model: equal digests are equal bits."""
        return state_sha256(self.to_store())

    def to_store(self) -> dict[str, Tensor]:
        """The final model as it is stored: a digest in the place of the frozen parameters."""
        return without_frozen(self.state, self.frozen)

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers; the content of `summary.json`."""
        target = self.experiment.target
        reached = self.rounds_to(target) if target is not None else None
        whole, to_target = self.costs(len(self.records)), self.costs(reached)
        return {
            "method": self.experiment.method.name,
            "rounds": len(self.records),
            "goal": asdict(self.goal),
            "target": target,
            "rounds_to_target": reached,
            "final_score": self.final_score,
            "final_model_score": self.final_model_score,
            "best_score": self.best_score,
            "model_round": self.model_round,
            "client_scores": {whose: dict(scores) for whose, scores in self.client_scores.items()},
            **({} if self.goal != ACCURACY else {"final_accuracy": self.final_accuracy}),
            "gflops": whole["gflops"],
            "gflops_per_round": self.gflops_per_round,
            "gflops_to_target": to_target["gflops"],
            "gmacs_total": whole["gmacs"],
            "gmacs_to_target": to_target["gmacs"],
            "megabytes": whole["megabytes"],
            "megabytes_to_target": to_target["megabytes"],
            "client_megabytes": self.client_megabytes,
            "refused_uploads": sum(len(r.refused) for r in self.records),
            "dropped_clients": sum(len(r.dropped) for r in self.records),
            "compute": self.experiment.compute,
            "kernels": self.kernels,
            "acceleration": list(self.acceleration),
            "ended": self.ended,
            "stopped": self.stopped,
            **({} if self.remark is None else {"remark": self.remark}),
            **({} if self.method_label is None else {"method_label": self.method_label}),
            "model_sha256": self.model_sha256,
            "seconds": sum(r.seconds for r in self.records),
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    """What the bits of a run depend on beside the experiment."""
    packages = {name: metadata.version(name) for name in ("torch", "numpy")}
    return {"fedtrip": __version__, **packages, "python": platform.python_version(), "machine": platform.machine()}
