"""A worker of the pool, on both sides of its connection: what it is told, and how it goes about it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection

from fedtrip.engines.handover import SharedData, shared_dataset
from fedtrip.engines.phases import ClientAnswer, ClientPiece, Phase, Result, ScoringPiece, part
from fedtrip.engines.process import WorkerProcess, answer, request
from fedtrip.engines.shared import SharedBlock
from fedtrip.engines.shared_pickle import SharedPickle
from fedtrip.experiment.federation import PackedFederation
from fedtrip.methods.interface import Memory
from fedtrip.training.client import Job
from fedtrip.training.workbench import Question, Workbench


@dataclass(frozen=True)
class Message:
    """Pieces of work to be done one after the other, each with an answer of its own."""

    pieces: tuple[ClientPiece | ScoringPiece, ...]
    outbox_is_free: bool
    """whether nobody needs what lies in the outbox any more"""


class PoolWorker:
    """A worker process, the shared memory between it and this process, and what it is doing.

    What lies in the inbox is needed until its piece is answered, what lies in the outbox until it is taken: only when
    neither holds anything they are written from the beginning again.
    """

    def __init__(self, packed: SharedPickle[PackedFederation], data: SharedData, broadcast: SharedBlock) -> None:
        self._inbox, self._outbox = SharedBlock(), SharedBlock()
        blocks = [broadcast.descriptor, self._inbox.descriptor, self._outbox.descriptor]
        self.process = WorkerProcess(
            "fedtrip.engines.pool_worker:serve",
            packed,
            data,
            blocks,
            descriptors=(packed.descriptor, data.descriptor, *blocks),
        )
        self.ready = False
        self.under_way: deque[int] = deque()
        """numbers of pieces of work, the first one being done now"""
        self.held: set[int] = set()
        """numbers of those whose result lies in the outbox and was not taken yet"""

    def hand(self, phase: Phase[Result], numbers: list[int]) -> None:
        """Give the worker these pieces, after those that it has."""
        if not self.under_way:
            self._inbox.rewind()
        outbox_is_free = not self.under_way and not self.held
        self.under_way.extend(numbers)
        self.process.send(Message(tuple(phase.packed(number, self._inbox) for number in numbers), outbox_is_free))

    def take(self, phase: Phase[Result]) -> tuple[int, Result]:
        """The worker's next answer: the number of the piece, and its result."""
        content = self.process.receive()
        number = self.under_way.popleft()
        self.held.add(number)
        return number, phase.result(number, content, self._outbox)

    def stop(self) -> None:
        self.process.stop()
        self._inbox.close()
        self._outbox.close()


def serve(connection: Connection, packed: SharedPickle[PackedFederation], data: SharedData, blocks: list[int]) -> None:
    """In the worker process: do what comes until the parent closes the connection."""
    broadcast, inbox, outbox = (SharedBlock(descriptor) for descriptor in blocks)
    bench = Workbench(packed.content().with_data(shared_dataset(data)))
    answer(connection, "ready")
    while True:
        message: Message = request(connection)
        if message.outbox_is_free:
            outbox.rewind()
        for piece in message.pieces:
            if isinstance(piece, ScoringPiece):
                model = (broadcast if piece.model_for_all else inbox).read(piece.model)
                answer(connection, bench.score(Question(model, piece.client, piece.part), piece.blocks))
            else:
                received = (broadcast if piece.received_by_all else inbox).read(piece.received)
                memory = Memory.unpacked(inbox.read(piece.memory), piece.last_round)
                job = Job(piece.client, piece.round, piece.exchange, received, memory, piece.personalises)
                answer(connection, _performed(bench, job, outbox))
                bench.give_back_freed()


def _performed(bench: Workbench, job: Job, outbox: SharedBlock) -> ClientAnswer:
    """Do a client's job and lay its outcome into the outbox."""
    outcome = bench.client(job)
    upload = {f"upload {name}": vector for name, vector in outcome.upload.items()}
    kept = {f"memory {name}": vector for name, vector in outcome.memory.packed().items()}
    layout = outbox.append({**upload, **kept})
    return ClientAnswer(outcome.samples, part(layout, "upload "), part(layout, "memory "), outcome.macs)
