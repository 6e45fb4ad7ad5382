"""What an engine does: the map over clients, and the evaluation. Nothing else depends on how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from fedtrip.methods.interface import Vectors
from fedtrip.training.client import Outcome, Task
from fedtrip.training.workbench import BlockScore


class Engine(Protocol):
    """How the work of a round is carried out. The results must not depend on it, to the last bit."""

    def clients(self, tasks: Sequence[Task]) -> Sequence[Outcome]:
        """Do the tasks; the outcomes in the order of the tasks."""

    def evaluate(self, model: Vectors) -> tuple[float, float]:
        """Accuracy and mean loss on the whole test set."""

    def close(self) -> None:
        """Free what the engine holds."""


def combined(scores: Iterable[BlockScore], samples: int) -> tuple[float, float]:
    """Accuracy and mean loss from the scores of all blocks, added in their order."""
    correct, loss = 0, 0.0
    for score in scores:
        correct += score.correct
        loss += score.loss
    return correct / samples, loss / samples
