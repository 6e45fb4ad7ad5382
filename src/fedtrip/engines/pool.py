"""The engine with a pool of persistent worker processes, one thread each.

Clients and blocks of the test set are spread over the workers as they become free; which worker does what cannot
change a bit. Vectors travel through shared memory, small messages through pipes. While the workers are still starting,
this process does the work itself, so short experiments do not wait for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from fedtrip.engines.base import added
from fedtrip.engines.handover import Handover, share_data
from fedtrip.engines.process import TICK, WorkerLost, WorkerProcess, answer, lost_for_good, request
from fedtrip.engines.shared import Layout, SharedBlock
from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation, PackedFederation
from fedtrip.methods.interface import Memory
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.workbench import Question, Workbench
from fedtrip.vectors import Vectors

Result = TypeVar("Result")

AHEAD = 2
"""Pieces of work a worker is given at once, so that it need not wait for this process to wake up between them."""
ATTEMPTS = 3
"""How often a piece of work is tried before it is held responsible for the death of its workers."""


@dataclass(frozen=True)
class ClientJob:
    """A client's job, its vectors replaced by where they lie in shared memory."""

    slot: int
    client: int
    round: int
    exchange: int
    received: Layout
    """in the block for all workers, or in the slot's inbox if this client receives something of its own"""
    received_by_all: bool
    memory: Layout
    last_round: int | None


@dataclass(frozen=True)
class ClientAnswer:
    """An outcome, its vectors replaced by where they lie in the worker's outbox."""

    samples: int
    upload: Layout
    memory: Layout
    macs: int


@dataclass(frozen=True)
class ScoringJob:
    """Some blocks of a question's samples; its model lies in the slot's inbox, or in the block for all workers."""

    slot: int
    model: Layout
    model_for_all: bool
    client: int | None
    blocks: range


class _Slot:
    """The shared memory for one piece of work under way: what the client remembers, and what comes of it."""

    def __init__(self, inbox: int | None = None, outbox: int | None = None) -> None:
        self.inbox, self.outbox = SharedBlock(inbox), SharedBlock(outbox)


class _Worker:
    """A worker process, the shared memory between it and this process, and what it is doing."""

    def __init__(self, work: Handover, broadcast: SharedBlock) -> None:
        self.slots = [_Slot() for _ in range(AHEAD)]
        boxes = [(slot.inbox.descriptor, slot.outbox.descriptor) for slot in self.slots]
        descriptors = (broadcast.descriptor, work.data.descriptor, *(box for pair in boxes for box in pair))
        self.process = WorkerProcess(
            "fedtrip.engines.pool:serve", work, broadcast.descriptor, boxes, descriptors=descriptors
        )
        self.ready = False
        self.under_way: deque[tuple[int, int]] = deque()
        """(piece of work, slot), the first one being done now"""

    def free_slot(self) -> int | None:
        """A slot that no work under way uses."""
        used = {slot for _, slot in self.under_way}
        return next((slot for slot in range(AHEAD) if slot not in used), None)

    def stop(self) -> None:
        self.process.stop()
        for slot in self.slots:
            slot.inbox.close()
            slot.outbox.close()


class PoolEngine:
    """Workers that live as long as the run; one that dies is replaced and its work done again."""

    def __init__(self, federation: Federation, workers: int, prepared: PreparedModel | None = None) -> None:
        self._data, self._broadcast = SharedBlock(), SharedBlock()
        self._workers: list[_Worker] = []
        self._lost_at_start = 0
        self._maps = 0
        try:
            shared = share_data(federation.dataset, self._data)
            self._work = Handover(PackedFederation.of(federation), shared)
            self._here = Workbench(self._work.federation(), prepared)
            for _ in range(workers):
                self._workers.append(_Worker(self._work, self._broadcast))
        except BaseException:
            self.close()
            raise

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        self._drop_answers()  # before the block that all workers read is written
        common = jobs[0].received if jobs and all(job.received is jobs[0].received for job in jobs) else None
        for_all = self._broadcast.write(common) if common is not None else {}

        def give(worker: _Worker, number: int, slot: int) -> None:
            job = jobs[number]
            memory = {f"memory {name}": vector for name, vector in job.memory.packed().items()}
            own = {} if common is not None else {f"received {name}": v for name, v in job.received.items()}
            layout = worker.slots[slot].inbox.write({**memory, **own})
            received = for_all if common is not None else _part(layout, "received ")
            worker.process.send(
                ClientJob(
                    slot,
                    job.client,
                    job.round,
                    job.exchange,
                    received,
                    common is not None,
                    _part(layout, "memory "),
                    job.memory.last_round,
                )
            )

        def take(worker: _Worker, number: int, slot: int, content: ClientAnswer) -> Outcome:
            outbox = worker.slots[slot].outbox
            upload = _copies(outbox.read(content.upload))
            memory = Memory.unpacked(_copies(outbox.read(content.memory)), jobs[number].round)
            return Outcome(jobs[number].client, content.samples, upload, memory, content.macs)

        yield from self._map(len(jobs), give, take, lambda number: self._here.client(jobs[number]))

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        self._drop_answers()
        common = questions[0].model if questions and all(q.model is questions[0].model for q in questions) else None
        for_all = self._broadcast.write(common) if common is not None else {}
        pieces = [
            (number, piece)
            for number, question in enumerate(questions)
            for piece in _pieces(self._here.blocks(question), len(self._workers) if len(questions) == 1 else 1)
        ]

        def give(worker: _Worker, number: int, slot: int) -> None:
            question, blocks = questions[pieces[number][0]], pieces[number][1]
            model = for_all if common is not None else worker.slots[slot].inbox.write(question.model)
            worker.process.send(ScoringJob(slot, model, common is not None, question.client, blocks))

        def take(_worker: _Worker, _number: int, _slot: int, sums: list[Sums]) -> list[Sums]:
            return sums

        def do_here(number: int) -> list[Sums]:
            return self._here.score(questions[pieces[number][0]], pieces[number][1])

        of_question: dict[int, list[Sums]] = {number: [] for number in range(len(questions))}
        for (number, _), sums in zip(pieces, self._map(len(pieces), give, take, do_here), strict=True):
            of_question[number] += sums
        return [added(of_question[number]) for number in range(len(questions))]

    def wait_until_ready(self) -> None:
        """Wait for every worker, so that none of the following work is done in this process."""
        while starting := [worker for worker in self._workers if not worker.ready]:
            if starting[0].process.connection.poll(TICK):
                self._hear(starting[0])
            else:
                self._hear(starting[0], only_look=True)

    def worker_pids(self) -> list[int]:
        """The processes of the pool."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers = []
        self._broadcast.close()
        self._data.close()

    def _map(
        self,
        count: int,
        give: Callable[[_Worker, int, int], None],
        take: Callable[[_Worker, int, int, Any], Result],
        do_here: Callable[[int], Result],
    ) -> Iterator[Result]:
        """Do `count` pieces of work on whichever worker is free; each result when it and all before it are there."""
        self._maps += 1
        mine = self._maps
        waiting = deque(range(count))
        results: dict[int, Result] = {}
        attempts = [0] * count
        given = 0

        def lost(worker: _Worker, problem: WorkerLost) -> None:
            """Do again what the worker had to do; the first piece was what it was at."""
            self._replace(worker)
            numbers = [number for number, _ in worker.under_way]
            attempts[numbers[0]] += 1
            if attempts[numbers[0]] >= ATTEMPTS:
                raise lost_for_good(f"a worker process was lost {ATTEMPTS} times at the same work: {problem}")
            waiting.extendleft(reversed(numbers))

        while given < count:
            if given in results:
                yield results.pop(given)
                if self._maps != mine:
                    raise RuntimeError("the engine was given other work before this was taken to its end")
                given += 1
                continue
            for _ in range(AHEAD):  # one piece for everybody before a second one for anybody
                for worker in self._ready_workers():
                    slot = worker.free_slot()
                    if waiting and slot is not None:
                        number = waiting.popleft()
                        worker.under_way.append((number, slot))
                        try:
                            give(worker, number, slot)
                        except WorkerLost as problem:
                            lost(worker, problem)
            busy = {worker.process.connection: worker for worker in self._workers if worker.under_way}
            if not busy:
                if waiting and attempts[waiting[0]]:
                    self.wait_until_ready()  # this work may be what kills processes: not in this one
                elif waiting:
                    number = waiting.popleft()
                    results[number] = do_here(number)
                continue
            answering = wait(list(busy), timeout=TICK)
            for connection, worker in busy.items():
                try:
                    if connection not in answering:
                        worker.process.check_progress()
                        continue
                    content = worker.process.receive()
                except WorkerLost as problem:
                    lost(worker, problem)
                    continue
                number, slot = worker.under_way.popleft()
                results[number] = take(worker, number, slot, content)

    def _drop_answers(self) -> None:
        """Wait for work that nobody asks for any more: whoever asked ended in the middle of it."""
        for worker in list(self._workers):
            try:
                while worker.under_way:
                    if not worker.process.connection.poll(TICK):
                        worker.process.check_progress()
                        continue
                    worker.process.receive()
                    worker.under_way.popleft()
            except (UserError, RuntimeError):  # it is lost, or ended with an error that nobody asks for any more
                self._replace(worker)

    def _ready_workers(self) -> list[_Worker]:
        """The workers that have started; one that died while starting is replaced."""
        for worker in list(self._workers):
            if not worker.ready and worker.process.connection.poll():
                self._hear(worker)
        return [worker for worker in self._workers if worker.ready]

    def _hear(self, worker: _Worker, only_look: bool = False) -> None:
        """Take a starting worker's first message; replace it if it died or hangs, but not for ever."""
        try:
            if only_look:
                worker.process.check_progress()
            else:
                worker.ready = worker.process.receive() == "ready"
        except WorkerLost as problem:
            self._lost_at_start += 1
            if self._lost_at_start >= ATTEMPTS:
                raise lost_for_good(f"{ATTEMPTS} worker processes were lost while starting: {problem}") from problem
            self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        worker.stop()
        self._workers[self._workers.index(worker)] = _Worker(self._work, self._broadcast)


def serve(connection: Connection, work: Handover, broadcast_block: int, boxes: list[tuple[int, int]]) -> None:
    """In the worker process: do what comes until the parent closes the connection."""
    broadcast, slots = SharedBlock(broadcast_block), [_Slot(*box) for box in boxes]
    bench = Workbench(work.federation())
    answer(connection, "ready")
    while True:
        job = request(connection)
        slot = slots[job.slot]
        if isinstance(job, ScoringJob):
            model = (broadcast if job.model_for_all else slot.inbox).read(job.model)
            answer(connection, bench.score(Question(model, job.client), job.blocks))
            continue
        memory = Memory.unpacked(slot.inbox.read(job.memory), job.last_round)
        received = (broadcast if job.received_by_all else slot.inbox).read(job.received)
        outcome = bench.client(Job(job.client, job.round, job.exchange, received, memory))
        upload = {f"upload {name}": vector for name, vector in outcome.upload.items()}
        kept = {f"memory {name}": vector for name, vector in outcome.memory.packed().items()}
        layout = slot.outbox.write({**upload, **kept})
        answer(
            connection,
            ClientAnswer(outcome.samples, _part(layout, "upload "), _part(layout, "memory "), outcome.macs),
        )


def _pieces(blocks: range, parts: int) -> list[range]:
    """The blocks in so many parts of about the same size, in order."""
    parts = min(len(blocks), parts)
    return [blocks[len(blocks) * part // parts : len(blocks) * (part + 1) // parts] for part in range(parts)]


def _part(layout: Layout, prefix: str) -> Layout:
    return {name.removeprefix(prefix): place for name, place in layout.items() if name.startswith(prefix)}


def _copies(vectors: Vectors) -> Vectors:
    return {name: vector.clone() for name, vector in vectors.items()}
