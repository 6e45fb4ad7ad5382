"""The engine with a pool of persistent worker processes, one thread each.

Clients and blocks of the test set are spread over the workers as they become free; which worker does what cannot
change a bit. Vectors travel through shared memory, small messages through pipes. While the workers are still starting,
this process does the work itself, so short experiments do not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Generic

from fedtrip.engines.base import added
from fedtrip.engines.handover import share_data, shared_dataset
from fedtrip.engines.phases import HELD_BYTES, ClientPhase, Phase, Result, ScoringPhase
from fedtrip.engines.pool_worker import PoolWorker
from fedtrip.engines.process import TICK, WorkerLost, lost_for_good
from fedtrip.engines.shared import SharedBlock
from fedtrip.engines.shared_pickle import SharedPickle
from fedtrip.engines.shares import shares
from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation, PackedFederation
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.workbench import Question, Workbench

ATTEMPTS = 3
"""How often a piece of work is tried before it is held responsible for the death of its workers."""


@dataclass
class _UnderWay(Generic[Result]):
    """A phase under way: what waits to be handed out, and the results whose turn has not come."""

    phase: Phase[Result]
    waiting: list[int] = field(init=False)
    """numbers of pieces; the largest first, or in order where memory is short"""
    results: dict[int, Result] = field(default_factory=dict)
    attempts: list[int] = field(init=False)
    next: int = 0
    """the number of the result that is wanted next"""

    def __post_init__(self) -> None:
        sizes, count = self.phase.sizes, len(self.phase.sizes)
        self.is_small = self.phase.bytes <= HELD_BYTES
        self.waiting = sorted(range(count), key=lambda number: -sizes[number] if self.is_small else 0)
        self.attempts = [0] * count


class PoolEngine:
    """Workers that live as long as the run; one that dies is replaced and its work done again."""

    def __init__(self, federation: Federation, workers: int, prepared: PreparedModel | None = None) -> None:
        self._data, self._module, self._broadcast = SharedBlock(), SharedBlock(), SharedBlock()
        self._workers: list[PoolWorker] = []
        self._lost_at_start = 0
        self._phases = 0
        self._samples = federation.partition.samples
        try:
            data, packed = share_data(federation.dataset, self._data), PackedFederation.of(federation)
            self._work = SharedPickle.of(packed, self._module), data, self._broadcast
            self._here = Workbench(packed.with_data(shared_dataset(data)), prepared)
            self._here.give_back()
            for _ in range(workers):
                self._workers.append(PoolWorker(*self._work))
        except BaseException:
            self.close()
            raise

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        self._drop_answers()  # before the block that all workers read is written
        yield from self._results(ClientPhase(jobs, self._samples, self._broadcast))

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        self._drop_answers()
        phase = ScoringPhase(questions, len(self._workers), self._here, self._broadcast)
        of_question: dict[int, list[Sums]] = {number: [] for number in range(len(questions))}
        for (number, _), sums in zip(phase.pieces, self._results(phase), strict=True):
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
        for block in (self._broadcast, self._module, self._data):
            block.close()

    def _results(self, phase: Phase[Result]) -> Iterator[Result]:
        """Do the pieces of a phase on whichever worker is free; each result when it and all before it are there.

        Its vectors are valid until the next one is asked for.
        """
        self._phases += 1
        mine, run = self._phases, _UnderWay(phase)
        while run.next < len(phase.sizes):
            self._hand_out(run)
            if run.next in run.results:
                yield run.results.pop(run.next)
                if self._phases != mine:
                    raise RuntimeError("the engine was given other work before this was taken to its end")
                for worker in self._workers:
                    worker.held.discard(run.next)
                run.next += 1
            elif any(worker.under_way for worker in self._workers):
                self._listen(run)
            elif run.attempts[run.waiting[0]]:
                self.wait_until_ready()  # this work may be what kills processes: not in this one
            else:
                number = run.waiting.pop(0)
                run.results[number] = phase.here(number, self._here)
                self._here.give_back()

    def _hand_out(self, run: _UnderWay[Result]) -> None:
        """Give the workers what they are to do next."""
        if not run.waiting:
            return
        sizes, takers = run.phase.sizes, self._ready_workers()
        if run.is_small:
            parts = shares([[sizes[n] for n in worker.under_way] for worker in takers], [sizes[n] for n in run.waiting])
            chosen = [[run.waiting[place] for place in places] for places in parts]
        else:  # one piece at a time; the result that is wanted next is taken first where it lies
            takers = [worker for worker in takers if not worker.under_way and run.next not in worker.held]
            chosen = [[number] for number in run.waiting[: len(takers)]]
        for worker, numbers in zip(takers, chosen, strict=False):
            if not numbers:
                continue
            if not run.is_small:  # what lies in its outbox must make room
                run.results |= {number: run.phase.kept(run.results[number]) for number in worker.held}
                worker.held.clear()
            run.waiting = [number for number in run.waiting if number not in numbers]
            try:
                worker.hand(run.phase, numbers)
            except WorkerLost as problem:
                self._lost(run, worker, problem)

    def _listen(self, run: _UnderWay[Result]) -> None:
        """Wait for answers, and look after those workers that give none."""
        busy = {worker.process.connection: worker for worker in self._workers if worker.under_way}
        answering = wait(list(busy), timeout=TICK)
        for connection, worker in busy.items():
            try:
                if connection in answering:
                    number, result = worker.take(run.phase)
                    run.results[number] = result
                else:
                    worker.process.check_progress()
            except WorkerLost as problem:
                self._lost(run, worker, problem)

    def _lost(self, run: _UnderWay[Result], worker: PoolWorker, problem: WorkerLost) -> None:
        """Do again what the worker had to do; the first piece was what it was at."""
        self._replace(worker)
        numbers = list(worker.under_way)
        run.attempts[numbers[0]] += 1
        if run.attempts[numbers[0]] >= ATTEMPTS:
            raise lost_for_good(f"a worker process was lost {ATTEMPTS} times at the same work: {problem}")
        run.waiting = [*numbers, *run.waiting]

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
                worker.held.clear()
            except (UserError, RuntimeError):  # it is lost, or ended with an error that nobody asks for any more
                self._replace(worker)

    def _ready_workers(self) -> list[PoolWorker]:
        """The workers that have started; one that died while starting is replaced."""
        for worker in list(self._workers):
            if not worker.ready and worker.process.connection.poll():
                self._hear(worker)
        return [worker for worker in self._workers if worker.ready]

    def _hear(self, worker: PoolWorker, only_look: bool = False) -> None:
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

    def _replace(self, worker: PoolWorker) -> None:
        worker.stop()
        self._workers[self._workers.index(worker)] = PoolWorker(*self._work)
