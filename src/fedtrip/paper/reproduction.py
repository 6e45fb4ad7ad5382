"""Runs what a table or figure of the paper needs and is not there yet, then writes it beside the published one.

Every entry reads and fills the same archive `OUT/runs`: a run that two entries need is done once, and one that was
interrupted goes on from its checkpoint in `OUT/unfinished`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from fedtrip.comparison.folder import REPORT
from fedtrip.comparison.trials import Stop, Trial, TrialEngine, run_trials
from fedtrip.errors import UserError, unknown_name
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.preparer import Preparer
from fedtrip.paper.archive import Archive, identity
from fedtrip.paper.entry import Entry, Findings, Line, OnStep
from fedtrip.report import write_report
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import remove_run
from fedtrip.runs.stored import load_result

RUNS, WORK = "runs", "unfinished"


class Watcher(Protocol):
    """Who wants to see how far a reproduction is."""

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""

    def finished(self, trial: Trial) -> None:
        """A trial is done."""


@dataclass(frozen=True)
class Plan:
    """The runs that some entries need."""

    wanted: tuple[Experiment, ...]
    missing: tuple[tuple[str, Experiment], ...]
    """a name to show, and what is to be run, in this order: all lines with the first seed, then with the next"""


def select(entry: Entry, cases: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Line]:
    """The entry's lines of these cases and methods, or of these labels; none named means all."""
    for case in cases:
        if case not in entry.cases:
            raise unknown_name("--case", case, entry.cases)
    known = {name for line in entry.lines for name in (line.method, line.label)}
    for method in methods:
        if method not in known:
            raise unknown_name("--methods", method, sorted(known))
    return [
        line
        for line in entry.lines
        if (not cases or line.case in cases) and (not methods or {line.method, line.label} & set(methods))
    ]


def plan(lines: Sequence[Line], trials: int, archive: Archive) -> Plan:
    """Each run once, whatever the number of lines that need it."""
    if trials < 1:
        raise UserError(f"--trials is {trials}; accepted: at least 1")
    wanted: dict[str, tuple[str, Experiment]] = {}
    for seed in range(trials):
        for line in lines:
            experiment = line.experiment.but(seed=seed)
            wanted.setdefault(identity(experiment), (f"{line.case} {line.label}, seed {seed}", experiment))
    missing = [(name, experiment) for name, experiment in wanted.values() if archive.find(experiment) is None]
    return Plan(tuple(experiment for _, experiment in wanted.values()), tuple(missing))


def run_missing(
    planned: Plan,
    archive: Archive,
    out: Path,
    *,
    data_dir: Path | None = None,
    workers: int | None = None,
    engine: TrialEngine = "local",
    address: str | None = None,
    progress: bool = False,
    watcher: Watcher | None = None,
    stop: Stop = lambda: False,
) -> None:
    """Run what is missing, several at once; each goes into the archive as soon as it is finished.

    `engine`, `address` and `stop` are those of `run_trials`.
    """
    prepared = Preparer(data_dir=data_dir, progress=progress)
    todo = [
        Trial(
            name=name,
            prepare=partial(prepared, experiment),
            out=work_folder(out, experiment),
            rounds=experiment.rounds,
        )
        for name, experiment in planned.missing
    ]
    told = None if watcher is None else watcher.round
    for trial in run_trials(todo, workers=workers, on_round=told, stop=stop, engine=engine, address=address):
        archive.add(load_result(trial.out))
        remove_run(trial.out)
        for emptied in (trial.out, out / WORK):
            with suppress(OSError):  # others are still at work there
                emptied.rmdir()
        if watcher is not None:
            watcher.finished(trial)


def write_entry(
    entry: Entry, archive: Archive, out: Path, data_dir: Path | None = None, on_step: OnStep | None = None
) -> Path:
    """Write the entry's files and a report from all its finished runs; the folder they are in."""
    folder = out / entry.name
    folder.mkdir(parents=True, exist_ok=True)
    findings = Findings(entry.lines, archive, data_dir, on_step)
    entry.write(findings, folder)
    runs = {
        f"{case}: {label}": [run for _, run in sorted(findings.runs(case, label).items())]
        for case in findings.cases
        for label in findings.labels(case)
    }
    if runs:
        write_report(runs, folder / REPORT, title=entry.title, commands=[f"fedtrip reproduce {entry.name}"])
    return folder


def work_folder(out: Path, experiment: Experiment) -> Path:
    """Where a run is until it is finished."""
    return out / WORK / hashlib.sha256(identity(experiment).encode()).hexdigest()[:16]
