"""What an engine does: the clients' work, and the scoring of models. Nothing else depends on how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.workbench import Question


class Engine(Protocol):
    """How the work of a round is carried out. The results must not depend on it, to the last bit."""

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Do the jobs; each outcome as soon as it and all before it are there, in the order of the jobs.

        One that `is_borrowed` is valid until the next one is asked for.
        """

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        """What each question's samples add up to under its model, in the order of the questions."""

    def close(self) -> None:
        """Free what the engine holds."""


def added(blocks: Iterable[Sums]) -> Sums:
    """The sums of all blocks, added in their order; what is kept is appended in it."""
    total: Sums = {}
    for block in blocks:
        for name, value in block.items():
            total[name] = total[name] + value if name in total else value
    return total
