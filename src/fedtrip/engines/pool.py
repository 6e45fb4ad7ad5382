"""The engine with a pool of persistent worker processes, one thread each.

Clients and evaluation batches are spread over the workers as they become free; which worker does what cannot change a
bit. Vectors travel through shared memory, small messages through pipes. While the workers are still starting, this
process does the work itself, so short experiments do not wait for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from fedtrip.engines.base import combined
from fedtrip.engines.handover import Handover, handover, on_shared_data, share_data
from fedtrip.engines.process import WorkerLost, WorkerProcess, answer, request
from fedtrip.engines.shared import Layout, SharedBlock
from fedtrip.federation import Federation
from fedtrip.local import Outcome, Task
from fedtrip.methods.base import Memory, Vectors
from fedtrip.workbench import BatchScore, Workbench, batch_count

Result = TypeVar("Result")

ATTEMPTS = 3
"""How often a piece of work is tried before it is held responsible for the death of its workers."""


@dataclass(frozen=True)
class ClientJob:
    """A client's task, its vectors replaced by where they lie in shared memory."""

    client: int
    round: int
    exchange: int
    received: Layout
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
class EvaluationJob:
    """Some batches of the test set, for the model that lies in the broadcast block."""

    model: Layout
    batches: range


class _Worker:
    """A worker process with the shared memory between it and this process."""

    def __init__(self, work: Handover, broadcast: SharedBlock) -> None:
        self.inbox, self.outbox = SharedBlock(), SharedBlock()
        descriptors = (broadcast.descriptor, self.inbox.descriptor, self.outbox.descriptor)
        self.process = WorkerProcess(
            "fedtrip.engines.pool:serve", work, descriptors, descriptors=(*descriptors, work.data.descriptor)
        )
        self.ready = False

    def stop(self) -> None:
        self.process.stop()
        self.inbox.close()
        self.outbox.close()


class PoolEngine:
    """Workers that live as long as the run; one that dies is replaced and its work done again."""

    def __init__(self, federation: Federation, workers: int) -> None:
        self._data, self._broadcast = SharedBlock(), SharedBlock()
        self._workers: list[_Worker] = []
        self._lost_at_start = 0
        try:
            shared = share_data(federation.dataset, self._data)
            self._here = Workbench(on_shared_data(federation, shared))
            self._samples = len(federation.dataset.y_test)
            self._work = handover(federation, shared)
            for _ in range(workers):
                self._workers.append(_Worker(self._work, self._broadcast))
        except BaseException:
            self.close()
            raise

    def clients(self, tasks: Sequence[Task]) -> list[Outcome]:
        received = self._broadcast.write(tasks[0].received) if tasks else {}

        def give(worker: _Worker, number: int) -> None:
            task = tasks[number]
            memory = worker.inbox.write(task.memory.packed())
            worker.process.send(
                ClientJob(task.client, task.round, task.exchange, received, memory, task.memory.last_round)
            )

        def take(worker: _Worker, number: int, content: ClientAnswer) -> Outcome:
            upload = _copies(worker.outbox.read(content.upload))
            memory = Memory.unpacked(_copies(worker.outbox.read(content.memory)), tasks[number].round)
            return Outcome(tasks[number].client, content.samples, upload, memory, content.macs)

        return self._map(len(tasks), give, take, lambda number: self._here.client(tasks[number]))

    def evaluate(self, model: Vectors) -> tuple[float, float]:
        layout = self._broadcast.write(model)
        count = batch_count(self._samples)
        size = -(-count // (2 * len(self._workers)))
        pieces = [range(start, min(start + size, count)) for start in range(0, count, size)]

        def give(worker: _Worker, number: int) -> None:
            worker.process.send(EvaluationJob(layout, pieces[number]))

        def take(_worker: _Worker, _number: int, scores: list[BatchScore]) -> list[BatchScore]:
            return scores

        results = self._map(len(pieces), give, take, lambda number: self._here.evaluate(model, pieces[number]))
        return combined((score for scores in results for score in scores), self._samples)

    def wait_until_ready(self) -> None:
        """Wait for every worker, so that none of the following work is done in this process."""
        while starting := [worker for worker in self._workers if not worker.ready]:
            self._hear(starting[0])

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
        give: Callable[[_Worker, int], None],
        take: Callable[[_Worker, int, Any], Result],
        do_here: Callable[[int], Result],
    ) -> list[Result]:
        """Do `count` pieces of work on whichever worker is free; the results in order."""
        waiting = deque(range(count))
        under_way: dict[Connection, tuple[_Worker, int]] = {}
        results: dict[int, Result] = {}
        attempts = [0] * count

        def lost(worker: _Worker, number: int, problem: WorkerLost) -> None:
            self._replace(worker)
            attempts[number] += 1
            if attempts[number] >= ATTEMPTS:
                raise RuntimeError(
                    f"a worker process was lost {ATTEMPTS} times at the same work: {problem}"
                ) from problem
            waiting.appendleft(number)

        while len(results) < count:
            busy = {worker for worker, _ in under_way.values()}
            for worker in self._ready_workers():
                if waiting and worker not in busy:
                    number = waiting.popleft()
                    try:
                        give(worker, number)
                        under_way[worker.process.connection] = (worker, number)
                    except WorkerLost as problem:
                        lost(worker, number, problem)
            if not under_way:
                if waiting and attempts[waiting[0]]:
                    self.wait_until_ready()  # this work may be what kills processes: not in this one
                elif waiting:
                    number = waiting.popleft()
                    results[number] = do_here(number)
                continue
            for connection in wait(list(under_way)):
                assert isinstance(connection, Connection)
                worker, number = under_way.pop(connection)
                try:
                    results[number] = take(worker, number, worker.process.receive())
                except WorkerLost as problem:
                    lost(worker, number, problem)
        return [results[number] for number in range(count)]

    def _ready_workers(self) -> list[_Worker]:
        """The workers that have started; one that died while starting is replaced."""
        for worker in list(self._workers):
            if not worker.ready and worker.process.connection.poll():
                self._hear(worker)
        return [worker for worker in self._workers if worker.ready]

    def _hear(self, worker: _Worker) -> None:
        """Take a starting worker's first message; replace it if it died, but not for ever."""
        try:
            worker.ready = worker.process.receive() == "ready"
        except WorkerLost as problem:
            self._lost_at_start += 1
            if self._lost_at_start >= ATTEMPTS:
                raise RuntimeError(f"{ATTEMPTS} worker processes were lost while starting: {problem}") from problem
            self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        worker.stop()
        self._workers[self._workers.index(worker)] = _Worker(self._work, self._broadcast)


def serve(connection: Connection, work: Handover, descriptors: tuple[int, int, int]) -> None:
    """In the worker process: do what comes until the parent closes the connection."""
    broadcast, inbox, outbox = (SharedBlock(descriptor) for descriptor in descriptors)
    bench = Workbench(work.federation())
    answer(connection, "ready")
    while True:
        job = request(connection)
        if isinstance(job, EvaluationJob):
            answer(connection, bench.evaluate(broadcast.read(job.model), job.batches))
            continue
        vectors = inbox.read(job.memory)
        memory = Memory.unpacked(vectors, job.last_round)
        outcome = bench.client(Task(job.client, job.round, job.exchange, broadcast.read(job.received), memory))
        upload = {f"upload {name}": vector for name, vector in outcome.upload.items()}
        kept = {f"memory {name}": vector for name, vector in outcome.memory.packed().items()}
        layout = outbox.write({**upload, **kept})
        answer(
            connection,
            ClientAnswer(outcome.samples, _part(layout, "upload "), _part(layout, "memory "), outcome.macs),
        )


def _part(layout: Layout, prefix: str) -> Layout:
    return {name.removeprefix(prefix): place for name, place in layout.items() if name.startswith(prefix)}


def _copies(vectors: Vectors) -> Vectors:
    return {name: vector.clone() for name, vector in vectors.items()}
