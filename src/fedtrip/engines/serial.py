"""The engine without processes: one client after the other, here. Also the reference that others must equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedtrip.engines.base import added
from fedtrip.experiment.federation import Federation
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.workbench import Question, Workbench


class SerialEngine:
    """Everything in this process, on one thread."""

    def __init__(self, federation: Federation, prepared: PreparedModel | None = None) -> None:
        self._bench = Workbench(federation, prepared)

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        for job in jobs:
            yield self._bench.client(job)

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        return [added(self._bench.score(question, self._bench.blocks(question))) for question in questions]

    def close(self) -> None:
        """Nothing to free."""
