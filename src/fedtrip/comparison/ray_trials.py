"""Whole runs on a Ray cluster: `run_trials` with Ray's workers instead of this machine's processes.

A data set is placed once in the cluster, and a node that runs a trial fetches it once. A worker runs its trial in a
folder of its own and streams that folder's content back after every round, so that the run folders are all here, and a
trial whose worker was lost goes on elsewhere from its last round.
"""

from __future__ import annotations

import os
import queue
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import ray

from fedtrip.comparison.trials import ATTEMPTS, OnTrialRound, Stop, Trial
from fedtrip.data.dataset import DataSet
from fedtrip.engines import worker_count
from fedtrip.engines.process import TICK
from fedtrip.errors import UserError
from fedtrip.experiment.federation import PackedFederation
from fedtrip.files.atomic import is_leftover, replacing
from fedtrip.interruption import handlers_kept
from fedtrip.rounds.ram import budget
from fedtrip.rounds.record import RoundRecord
from fedtrip.rounds.state import RunPaused
from fedtrip.runs.checkpoint import Checkpoint
from fedtrip.runs.folder import CHECKPOINT, EXPERIMENT, SUMMARY, Destination
from fedtrip.runs.running import run_federation

Files = dict[str, bytes | None]
"""A folder's content by relative path; None for a file that is gone."""


@dataclass(frozen=True)
class News:
    """What a worker streams back: a round's record and the files that changed; no record when the trial is done."""

    record: RoundRecord | None
    files: Files
    problem: str | None = None
    """what the user did wrong, if the trial ended so"""


def run_trials_on_ray(
    trials: Sequence[Trial], *, workers: int | None, on_round: OnTrialRound | None, stop: Stop, address: str | None
) -> Iterator[Trial]:
    """Run all trials on the cluster at `address`, or on a Ray that is started here; yields each one when finished.

    When `stop` says so, `KeyboardInterrupt` is raised; every trial is kept up to its last finished round.
    """
    if workers is not None and address is not None:
        raise UserError("--workers has no meaning with --address; accepted: the cluster decides how many run at once")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody unless the user asks for it
    try:
        with handlers_kept():
            ray.init(
                address=address or "local",
                num_cpus=None if address else worker_count(workers),
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                configure_logging=False,
            )
    except (ConnectionError, ValueError) as problem:
        raise UserError(f"--address '{address}' cannot be used: {problem}; accepted: a running Ray cluster") from None
    try:
        yield from _Spread(on_round, stop).run(trials)
    finally:
        ray.shutdown()


class _Spread:
    """The trials under way on a cluster."""

    def __init__(self, on_round: OnTrialRound | None, stop: Stop) -> None:
        self._on_round, self._stop = on_round, stop
        self._placed: dict[int, tuple[DataSet, Any]] = {}
        """each data set and its place in the cluster; the data set is held, so that its identity stays its own"""
        self._streams: dict[Any, Trial] = {}
        """the trials under way by the generator of their news"""

    def run(self, trials: Sequence[Trial]) -> Iterator[Trial]:
        waiting, attempts = deque(trials), {trial.name: 0 for trial in trials}
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        most = max(1, int(resources.get("CPU", 1)))
        while waiting or self._streams:
            while waiting and len(self._streams) < most:
                self._start(waiting.popleft())
            streams: list[Any] = list(self._streams)
            ready: list[Any] = ray.wait(streams, num_returns=1, timeout=TICK, fetch_local=False)[0]
            if self._stop():
                raise KeyboardInterrupt
            for stream in ready:
                trial = self._streams[stream]
                try:
                    news: News = ray.get(next(stream))
                except StopIteration:
                    del self._streams[stream]
                    yield trial
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError,
                        ray.exceptions.OutOfMemoryError) as problem:  # fmt: skip
                    del self._streams[stream]
                    attempts[trial.name] += 1
                    if attempts[trial.name] >= ATTEMPTS:
                        lost = f"trial {trial.name} lost its worker {ATTEMPTS} times: {problem}"
                        raise RuntimeError(lost) from problem
                    waiting.appendleft(trial)
                else:
                    self._take(trial, news)

    def _start(self, trial: Trial) -> None:
        """Give the trial to the cluster, with what its folder here holds of it."""
        federation = trial.prepare()
        if id(federation.dataset) not in self._placed:
            self._placed[id(federation.dataset)] = (federation.dataset, ray.put(federation.dataset))
        data = self._placed[id(federation.dataset)][1]
        packed = cloudpickle.dumps(PackedFederation.of(federation))
        self._streams[_remote_trial().remote(sys.path, packed, data, contents(trial.out), trial.until)] = trial

    def _take(self, trial: Trial, news: News) -> None:
        if news.problem is not None:
            raise UserError(news.problem)
        bring_up_to_date(trial.out, news.files)
        if news.record is not None and self._on_round is not None:
            self._on_round(trial, news.record)


def _remote_trial() -> Any:
    """`stream_trial` as Ray runs it: on one CPU, its news one by one; a lost worker is ours to replace."""
    return ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(stream_trial)


def stream_trial(
    path: list[str], packed: bytes, dataset: DataSet, begun: Files, until: int | None = None
) -> Iterator[News]:
    """On a worker: run a trial, going on from what was begun, and tell of each round."""
    sys.path += [folder for folder in path if folder not in sys.path]  # now a user's own modules can be found
    work: PackedFederation = cloudpickle.loads(packed)
    news: queue.Queue[News | BaseException | None] = queue.Queue()
    with tempfile.TemporaryDirectory(prefix="fedtrip-") as place:
        out = Path(place) / "run"
        bring_up_to_date(out, begun)
        seen = _states(out)

        def changed() -> Files:
            nonlocal seen
            before, seen = seen, _states(out)
            gone: Files = dict.fromkeys(before.keys() - seen.keys())
            return {name: (out / name).read_bytes() for name in seen if seen[name] != before.get(name)} | gone

        def run() -> None:
            try:
                with suppress(RunPaused):
                    run_federation(
                        work.with_data(dataset),
                        destination=Destination(out, resume=True, every=1),  # a lost worker takes its folder along
                        workers=1,
                        client_memory=budget(sharing=os.cpu_count() or 1),
                        on_round=lambda r: news.put(News(r, changed())),
                        until=until,
                    )
                news.put(News(None, changed()))
                news.put(None)
            except UserError as problem:
                news.put(News(None, {}, str(problem)))
            except BaseException as problem:
                news.put(problem)

        threading.Thread(target=run, daemon=True).start()  # the run calls back, while a stream is asked
        while (told := news.get()) is not None:
            if isinstance(told, BaseException):
                raise told
            yield told


def contents(folder: Path) -> Files:
    """Every file below a folder."""
    return {name: (folder / name).read_bytes() for name in _states(folder)}


def _states(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every file below a folder with what changes when it is written; none that is being written."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not is_leftover(path))
    stats = {str(path.relative_to(folder)): path.stat() for path in paths}
    return {name: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}


def bring_up_to_date(folder: Path, files: Files) -> None:
    """Write and remove files so that the folder is a run folder at every moment: what marks it first, what makes it
    finished last."""
    order = {EXPERIMENT: 0, SUMMARY: 3}
    states = f"{CHECKPOINT}/s"  # the server's state, of each round and as it was synced: what makes a round count
    rank = {name: order.get(name, 2 if name.startswith(states) else 1) for name in files}
    for name in sorted(files, key=lambda name: (rank[name], name)):
        content, path = files[name], folder / name
        if content is None:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    for name in (name for name, content in files.items() if content is None):
        (folder / name).unlink(missing_ok=True)
    if (folder / SUMMARY).is_file():
        Checkpoint(folder / CHECKPOINT).remove()
