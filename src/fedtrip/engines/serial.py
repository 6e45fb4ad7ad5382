"""The engine without processes: one client after the other, here. Also the reference that others must equal."""

from __future__ import annotations

from collections.abc import Sequence

from fedtrip.engines.base import combined
from fedtrip.experiment.federation import Federation
from fedtrip.methods.interface import Vectors
from fedtrip.training.client import Outcome, Task
from fedtrip.training.workbench import Workbench, block_count


class SerialEngine:
    """Everything in this process, on one thread."""

    def __init__(self, federation: Federation) -> None:
        self._bench = Workbench(federation)
        self._samples = len(federation.dataset.y_test)

    def clients(self, tasks: Sequence[Task]) -> list[Outcome]:
        return [self._bench.client(task) for task in tasks]

    def evaluate(self, model: Vectors) -> tuple[float, float]:
        return combined(self._bench.evaluate(model, range(block_count(self._samples))), self._samples)

    def close(self) -> None:
        """Nothing to free."""
