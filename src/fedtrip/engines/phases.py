"""The two kinds of work that a pool does, piece by piece: clients' jobs, and blocks of samples to be scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from fedtrip.engines.shared import Layout, SharedBlock
from fedtrip.methods.interface import Memory
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.workbench import Part, Question, Workbench
from fedtrip.vectors import Vectors, copied, size_in_bytes

Result = TypeVar("Result")
HELD_BYTES = 128 * 2**20
"""If all that a phase sends and gets is not more, many pieces are handed out at once and results may wait in shared
memory for their turn. Otherwise a worker has one piece at a time, in the order in which the results are wanted."""


@dataclass(frozen=True)
class ClientPiece:
    """A client's job, its vectors replaced by where they lie in shared memory."""

    client: int
    round: int
    exchange: int
    received: Layout
    """in the block for all workers, or in the inbox if this client receives something of its own"""
    received_by_all: bool
    memory: Layout
    last_round: int | None
    personalises: bool


@dataclass(frozen=True)
class ClientAnswer:
    """An outcome, its vectors replaced by where they lie in the worker's outbox."""

    samples: int
    upload: Layout
    memory: Layout
    macs: int


@dataclass(frozen=True)
class ScoringPiece:
    """Some blocks of a question's samples; its model lies in the inbox, or in the block for all workers."""

    model: Layout
    model_for_all: bool
    client: int | None
    part: Part
    blocks: range


class Phase(Protocol[Result]):
    """Pieces of work by number; the results are wanted in this order."""

    @property
    def sizes(self) -> Sequence[int]:
        """About how long each takes, compared with the others."""

    @property
    def bytes(self) -> int:
        """About what all pieces take in shared memory, in and out."""

    def packed(self, number: int, inbox: SharedBlock) -> ClientPiece | ScoringPiece:
        """A piece as a worker is told of it; what it needs of its own is appended to the inbox."""

    def result(self, number: int, content: Any, outbox: SharedBlock, /) -> Result:
        """What came of a piece; its vectors are views of the outbox."""

    def kept(self, result: Result) -> Result:
        """The same in memory of its own."""

    def here(self, number: int, bench: Workbench) -> Result:
        """Do a piece in this process."""


class ClientPhase:
    """The jobs of an exchange."""

    def __init__(self, jobs: Sequence[Job], samples: Callable[[int], int], broadcast: SharedBlock) -> None:
        self._jobs = jobs
        self._common = _common([job.received for job in jobs])
        self._for_all = broadcast.write(self._common) if self._common is not None else {}
        self.sizes = [samples(job.client) for job in jobs]
        # a client sends and will remember about what it is sent and remembers now
        self.bytes = sum(size_in_bytes(job.received) + job.memory.size_in_bytes() for job in jobs)

    def packed(self, number: int, inbox: SharedBlock) -> ClientPiece:
        job, shared = self._jobs[number], self._common is not None
        memory = {f"memory {name}": vector for name, vector in job.memory.packed().items()}
        own = {} if shared else {f"received {name}": vector for name, vector in job.received.items()}
        layout = inbox.append({**memory, **own})
        return ClientPiece(
            job.client,
            job.round,
            job.exchange,
            received=self._for_all if shared else part(layout, "received "),
            received_by_all=shared,
            memory=part(layout, "memory "),
            last_round=job.memory.last_round,
            personalises=job.personalises,
        )

    def result(self, number: int, content: ClientAnswer, outbox: SharedBlock) -> Outcome:
        job, memory = self._jobs[number], Memory.unpacked(outbox.read(content.memory), self._jobs[number].round)
        return Outcome(job.client, content.samples, outbox.read(content.upload), memory, content.macs, is_borrowed=True)

    def kept(self, result: Outcome) -> Outcome:
        if not result.is_borrowed:
            return result
        return replace(result, upload=copied(result.upload), memory=result.memory.copied(), is_borrowed=False)

    def here(self, number: int, bench: Workbench) -> Outcome:
        return bench.client(self._jobs[number])


class ScoringPhase:
    """Questions: a single one is spread over the workers, of several each is one piece."""

    def __init__(self, questions: Sequence[Question], workers: int, bench: Workbench, broadcast: SharedBlock) -> None:
        self._questions = questions
        self._common = _common([question.model for question in questions])
        self._for_all = broadcast.write(self._common) if self._common is not None else {}
        self.pieces = [
            (number, blocks)
            for number, question in enumerate(questions)
            for blocks in _evenly(bench.blocks(question), workers if len(questions) == 1 else 1)
        ]
        """the question of each piece, and its blocks"""
        self.sizes = [len(blocks) for _, blocks in self.pieces]
        self.bytes = 0 if self._common is not None else sum(size_in_bytes(question.model) for question in questions)

    def packed(self, number: int, inbox: SharedBlock) -> ScoringPiece:
        (question, blocks), shared = self.pieces[number], self._common is not None
        model = self._for_all if shared else inbox.append(self._questions[question].model)
        return ScoringPiece(model, shared, self._questions[question].client, self._questions[question].part, blocks)

    def result(self, _number: int, content: list[Sums], _outbox: SharedBlock, /) -> list[Sums]:
        return content

    def kept(self, result: list[Sums]) -> list[Sums]:
        return result

    def here(self, number: int, bench: Workbench) -> list[Sums]:
        question, blocks = self.pieces[number]
        return bench.score(self._questions[question], blocks)


def part(layout: Layout, prefix: str) -> Layout:
    """The places whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): place for name, place in layout.items() if name.startswith(prefix)}


def _common(vectors: Sequence[Vectors]) -> Vectors | None:
    """What all pieces are given, if it is the same for all."""
    return vectors[0] if vectors and all(v is vectors[0] for v in vectors) else None


def _evenly(blocks: range, parts: int) -> list[range]:
    """The blocks in so many parts of about the same size, in order."""
    parts = min(len(blocks), parts)
    return [blocks[len(blocks) * part // parts : len(blocks) * (part + 1) // parts] for part in range(parts)]
