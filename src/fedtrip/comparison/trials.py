"""Whole runs side by side, one process each: how `compare` spreads its trials over the cores."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Literal

from fedtrip.data.dataset import DataSet
from fedtrip.engines import worker_count
from fedtrip.engines.handover import Handover, SharedData, share_data
from fedtrip.engines.process import TICK, WorkerLost, WorkerProcess, answer, lost_for_good, request
from fedtrip.engines.shared import SharedBlock
from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation, PackedFederation
from fedtrip.interruption import Interruption
from fedtrip.rounds.ram import budget
from fedtrip.rounds.record import RoundRecord
from fedtrip.rounds.state import RunPaused
from fedtrip.runs.folder import Destination
from fedtrip.runs.running import run_federation
from fedtrip.tasks.interface import ACCURACY, Goal

ATTEMPTS = 3
DONE, STOP = "done", "stop"
"""What is said between the processes beside records and work."""
SECONDS_TO_SAVE = 5.0
"""What a trial's process has to write its last finished round when the comparison ends before it."""
TrialEngine = Literal["local", "ray"]


@dataclass(frozen=True)
class Trial:
    """One run of a comparison: how to make it, and the folder it is written to."""

    name: str
    prepare: Callable[[], Federation]
    out: Path
    rounds: int
    goal: Goal = ACCURACY
    """the score that its target is about"""
    until: int | None = None
    """it is left after this round, as far as this list of trials is concerned; a later list may go on with it"""


OnTrialRound = Callable[[Trial, RoundRecord], None]
Stop = Callable[[], bool]
"""Whether to end after the rounds under way; see `fedtrip.interruption`."""


def run_trials(
    trials: Sequence[Trial],
    *,
    workers: int | None,
    on_round: OnTrialRound | None,
    stop: Stop = lambda: False,
    engine: TrialEngine = "local",
    address: str | None = None,
) -> Iterator[Trial]:
    """Run all trials, as many at once as there are workers (default: the cores); yields each one that is finished.

    One that is to be left after a round counts as finished there.

    A trial whose folder holds part of it goes on from there; so does one whose process died or hangs. When `stop`
    says so, every trial ends after its current round, and `KeyboardInterrupt` is raised. Whatever else ends the
    comparison, the last finished round of each trial is kept. With the engine `ray` they run
    on the Ray cluster at `address`, or on a Ray that is started on this machine.
    """
    check_trial_engine(engine, address)
    if engine == "ray":
        from fedtrip.comparison.ray_trials import run_trials_on_ray

        yield from run_trials_on_ray(trials, workers=workers, on_round=on_round, stop=stop, address=address)
        return
    count = min(worker_count(workers), len(trials))
    if count == 1:
        for trial in trials:

            def told(record: RoundRecord, trial: Trial = trial) -> None:
                if on_round is not None:
                    on_round(trial, record)
                if stop():
                    raise KeyboardInterrupt

            with suppress(RunPaused):
                run_federation(
                    trial.prepare(),
                    destination=Destination(trial.out, resume=True),
                    workers=workers,
                    on_round=told,
                    until=trial.until,
                )
            yield trial
        return
    with _TrialPool(count) as pool:
        yield from pool.run(trials, on_round, stop)


def check_trial_engine(engine: TrialEngine, address: str | None) -> None:
    """Refuse an engine that is not installed, and an address that nothing would look at."""
    if engine != "ray" and address is not None:
        raise UserError(f"--address '{address}' has no meaning here; accepted: with --engine ray")
    if engine == "ray" and find_spec("ray") is None:
        raise UserError("--engine ray needs Ray; accepted: pip install 'fedtrip[ray]'")


class _TrialPool:
    """Processes that run one trial after the other; the data sets lie in memory they share."""

    def __init__(self, count: int) -> None:
        self._count, self._client_memory = count, budget(sharing=count)
        self._blocks: dict[int, tuple[DataSet, SharedBlock, SharedData]] = {}
        self._processes: dict[Connection, tuple[WorkerProcess, Trial]] = {}
        self._idle: list[WorkerProcess] = []
        self._known: dict[WorkerProcess, frozenset[int]] = {}
        """the data sets whose memory a process inherited when it was started"""

    def __enter__(self) -> _TrialPool:
        return self

    def __exit__(self, *_: object) -> None:
        at_work = [process for process, _trial in self._processes.values()]
        for process in at_work:
            process.terminate()
        until = time.monotonic() + SECONDS_TO_SAVE
        for process in at_work:
            process.wait(until - time.monotonic())
            process.stop()
        for process in self._idle:
            process.stop()
        for _dataset, block, _shared in self._blocks.values():
            block.close()

    def run(self, trials: Sequence[Trial], on_round: OnTrialRound | None, stop: Stop) -> Iterator[Trial]:
        waiting = deque(trials)
        attempts = {trial.name: 0 for trial in trials}
        stopping = False
        while self._processes or (waiting and not stopping):
            while waiting and len(self._processes) < self._count and not stopping:
                self._start(waiting.popleft())
            answering = wait(list(self._processes), timeout=TICK)
            for connection, (process, trial) in list(self._processes.items()):
                try:
                    if connection not in answering:
                        process.check_progress()
                        continue
                    news = process.receive()
                except WorkerLost as problem:
                    process.stop()
                    del self._processes[connection]
                    attempts[trial.name] += 1
                    if attempts[trial.name] >= ATTEMPTS:
                        raise lost_for_good(
                            f"trial {trial.name} lost its process {ATTEMPTS} times: {problem}"
                        ) from problem
                    waiting.appendleft(trial)
                    continue
                if isinstance(news, RoundRecord):
                    if on_round is not None:
                        on_round(trial, news)
                    continue
                del self._processes[connection]
                self._idle.append(process)
                if news == DONE:
                    yield trial
            if stop() and not stopping:
                stopping = True
                self._ask_to_stop()
        if stopping:
            raise KeyboardInterrupt

    def _ask_to_stop(self) -> None:
        for process, _trial in self._processes.values():
            with suppress(WorkerLost):  # it is found out when nothing comes any more
                process.send(STOP)

    def _start(self, trial: Trial) -> None:
        """Give the trial to an idle process that has its data, or to a new one."""
        federation = trial.prepare()
        shared = self._shared(federation.dataset)
        key = id(federation.dataset)
        work = (Handover(PackedFederation.of(federation), shared), trial.out, self._client_memory, trial.until)
        process = next((idle for idle in self._idle if key in self._known[idle]), None)
        if process is None:
            if self._idle:
                self._idle.pop().stop()
            descriptors = [data.descriptor for _, _, data in self._blocks.values()]
            process = WorkerProcess("fedtrip.comparison.trials:serve", *work, descriptors=descriptors)
            self._known[process] = frozenset(self._blocks)
        else:
            self._idle.remove(process)
            process.send(work, by_value=True)
        self._processes[process.connection] = (process, trial)

    def _shared(self, dataset: DataSet) -> SharedData:
        """A data set's place in shared memory; the data set is held, so that its identity stays its own."""
        if id(dataset) not in self._blocks:
            block = SharedBlock()
            self._blocks[id(dataset)] = (dataset, block, share_data(dataset, block))
        return self._blocks[id(dataset)][2]


class _Stopped(Exception):
    """In a worker: the parent asked to stop, or is gone."""


def serve(connection: Connection, work: Handover, out: Path, client_memory: int, until: int | None) -> None:
    """In the worker process: run trial after trial."""

    def told(record: RoundRecord) -> None:
        answer(connection, record)
        if connection.poll():
            raise _Stopped

    while True:
        try:
            # SIGTERM, of the parent or of who sends it to all, gives up the round under way
            with Interruption(), suppress(RunPaused):
                run_federation(
                    work.federation(),
                    destination=Destination(out, resume=True),
                    workers=1,
                    client_memory=client_memory,
                    on_round=told,
                    until=until,
                )
        except _Stopped:
            answer(connection, STOP)
            return
        answer(connection, DONE)
        order = request(connection)
        if order == STOP:
            return
        work, out, client_memory, until = order
