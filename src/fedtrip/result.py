"""What a run gave: its records, the questions one asks of them, and the trained model."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from fedtrip._version import __version__
from fedtrip.experiment import Experiment
from fedtrip.flat import state_sha256
from fedtrip.rounds import RoundRecord, first_round_reaching

if TYPE_CHECKING:
    import pandas
    from torch import Tensor, nn

LAST_ROUNDS = 10
"""The final accuracy is the mean over this many last evaluated rounds, as in the paper."""


@dataclass(frozen=True)
class Result:
    """A finished run."""

    experiment: Experiment
    records: tuple[RoundRecord, ...]
    state: dict[str, Tensor]
    """the final global model, as a state dict"""
    ended: str | None
    """why the run ended before its last round; None if it did not, or reached its target"""
    gflops_per_round: float | None
    """the paper's accounting: forward passes and attaching operations of one client"""
    acceleration: tuple[str, ...]
    """what was changed in the private copy of the module to make it faster; see `fedtrip.accelerate`"""
    build: Callable[[], nn.Module]

    @property
    def module(self) -> nn.Module:
        """The trained module, in evaluation mode."""
        module = self.build()
        module.load_state_dict(self.state)
        return module.eval()

    def rounds_to(self, target: float) -> int | None:
        """The first round whose test accuracy is at least the target; None if it was never reached."""
        return first_round_reaching(self.records, target)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """(round, test accuracy) of every evaluated round."""
        return [(r.round, r.accuracy) for r in self.records if r.accuracy is not None]

    def frame(self) -> pandas.DataFrame:
        """The records as a data frame, one row a round."""
        import pandas

        return pandas.DataFrame([vars(record) for record in self.records])

    @property
    def final_accuracy(self) -> float | None:
        """Mean test accuracy of the last ten evaluated rounds."""
        last = [accuracy for _, accuracy in self.curve][-LAST_ROUNDS:]
        return sum(last) / len(last) if last else None

    @property
    def client_megabytes(self) -> float:
        """What a client keeps between its rounds, the most of any."""
        return max((r.client_memory for r in self.records), default=0) / 1e6

    @property
    def model_sha256(self) -> str:
        """Digest of the final model: equal digests are equal bits."""
        return state_sha256(self.state)

    def costs(self, rounds: int | None) -> dict[str, float | None]:
        """What the first so many rounds cost: paper's GFLOPs (one client), our GMACs and megabytes (all clients)."""
        if rounds is None:
            return {"gflops": None, "gmacs": None, "megabytes": None}
        counted = [r for r in self.records if r.round <= rounds]
        gflops = None if self.gflops_per_round is None else self.gflops_per_round * len(counted)
        return {
            "gflops": gflops,
            "gmacs": sum(r.macs for r in counted) / 1e9,
            "megabytes": sum(r.bytes_down + r.bytes_up for r in counted) / 1e6,
        }

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers; the content of `summary.json`."""
        target = self.experiment.target
        reached = self.rounds_to(target) if target is not None else None
        whole, to_target = self.costs(len(self.records)), self.costs(reached)
        return {
            "method": self.experiment.method.name,
            "rounds": len(self.records),
            "target": target,
            "rounds_to_target": reached,
            "final_accuracy": self.final_accuracy,
            "best_accuracy": max((accuracy for _, accuracy in self.curve), default=None),
            "gflops": whole["gflops"],
            "gflops_per_round": self.gflops_per_round,
            "gflops_to_target": to_target["gflops"],
            "gmacs_total": whole["gmacs"],
            "gmacs_to_target": to_target["gmacs"],
            "megabytes": whole["megabytes"],
            "megabytes_to_target": to_target["megabytes"],
            "client_megabytes": self.client_megabytes,
            "refused_uploads": sum(len(r.refused) for r in self.records),
            "acceleration": list(self.acceleration),
            "ended": self.ended,
            "model_sha256": self.model_sha256,
            "seconds": sum(r.seconds for r in self.records),
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    """What the bits of a run depend on beside the experiment."""
    packages = {name: metadata.version(name) for name in ("torch", "numpy")}
    return {"fedtrip": __version__, **packages, "python": platform.python_version(), "machine": platform.machine()}
