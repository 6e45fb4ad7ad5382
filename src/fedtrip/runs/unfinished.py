"""What there is of a run that is not finished, and how to go on with it: for people who ask for its result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.families import TASK
from fedtrip.files.lock import is_locked
from fedtrip.rounds.record import RoundRecord, record_from_json
from fedtrip.runs.folder import METRICS, SUMMARY, read_experiment, read_lines
from fedtrip.tasks.interface import Goal


def goal_of(experiment: Experiment) -> Goal | None:
    """What its task's target is about; None if the task is code of the user's own, which is not run to ask it."""
    goal: Goal | None = TASK.make(experiment.task).goal if experiment.task.name in TASK.names() else None
    return goal


def goal_named(scores: Iterable[str]) -> Goal:
    """A goal by the names of a record's scores alone: the first that is not the loss, of which nothing is known."""
    return Goal(next((name for name in scores if name != "loss"), "loss"))


def check_finished(run: Path) -> None:
    """Refuse a run that is not finished, with what there is of it and how to go on."""
    if (run / SUMMARY).exists():
        return
    quoted = shlex.quote(str(run))
    how = "is still running" if is_locked(run) else "is not finished"
    on = "" if is_locked(run) else f"; to go on: fedtrip run --resume {quoted}"
    raise UserError(f"run '{run}' {how}: it has {so_far(run)}{on}; its curve so far: fedtrip watch {quoted}")


def so_far(run: Path) -> str:
    """How far a run is, in words: `12 of 100 rounds, accuracy 83.20% (best 84.10%, round 10)`."""
    experiment = read_experiment(run)
    records = _whole_records(run)
    told = f"{len(records)} of {experiment.rounds} rounds"
    goal = goal_of(experiment) or next((goal_named(r.scores) for r in records if r.scores), None)
    scores = [(r.round, r.scores.get(goal.score)) for r in records] if goal is not None else []
    curve = [(number, score) for number, score in scores if score is not None]
    if not curve or goal is None:
        return told
    last = curve[-1][1]
    first, best = (max if goal.higher_is_better else min)(curve, key=lambda point: point[1])
    beside = "" if best == last else f" (best {goal.shown(best)}, round {first})"
    return f"{told}, {goal.score} {goal.shown(last)}{beside}"


def _whole_records(run: Path) -> list[RoundRecord]:
    """The rounds up to the first line that cannot be read: the last may be half written."""
    records: list[RoundRecord] = []
    if not (run / METRICS).exists():
        return records
    for line in read_lines(run):
        try:
            records.append(record_from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            break
    return records
