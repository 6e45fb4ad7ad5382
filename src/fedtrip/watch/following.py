"""One run, read as it is written: each time only what is new, never more than a part at once.

A line that is not complete yet is left for the next time. A run that was interrupted and goes on cuts its records back
to its checkpoint: the last line that was read is compared, and if it is another now, all are read again.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_right
from collections import deque
from typing import Any

from fedtrip.errors import UserError, shortened
from fedtrip.experiment.description import Experiment
from fedtrip.files.lock import is_locked
from fedtrip.files.plain import NotPlain, Stamp, opened_plain, read_at, read_plain, stamp_of
from fedtrip.rounds.record import RoundRecord, first_round_reaching, record_from_json
from fedtrip.runs.folder import EXPERIMENT, METRICS, SUMMARY, summary_of
from fedtrip.runs.unfinished import goal_named, goal_of
from fedtrip.tasks.interface import Goal
from fedtrip.watch.finding import MOST_BYTES, FoundRun

MOST_AT_ONCE = 8 * 2**20
"""Bytes of records that are read at a time, which is also the longest line."""
MOST_ROUNDS = 50_000
"""Of one run; a screen could not show more."""
LAST_ROUNDS = 10
"""The pace is the mean of so many rounds."""
QUIET = 60.0
"""Seconds without a new round after which a run counts as interrupted, where locks cannot tell."""
ENDS = {"ended": "ended early", "stopped": "stopped"}
"""What a summary calls an end before the last round, and what that is here."""
DIGITS = 6
"""Significant digits of what is drawn."""


class Followed:
    """What is known of a run, and since which tick: a tick is one look at the folders."""

    def __init__(self, found: FoundRun, number: int) -> None:
        self.found, self.number = found, number
        self.experiment: Experiment | None = None
        self.goal: Goal | None = None
        self.problem: str | None = None
        """why its experiment or its summary cannot be read"""
        self.reached: int | None = None
        self.summary: dict[str, Any] = {}
        self.state = ""
        self.is_there_more = False
        """whether there are lines that are not read yet"""
        self.changed = 0
        """the tick of the last change"""
        self._summary_stamp: Stamp | None = None
        self._metrics_stamp: Stamp | None = None
        self._start_again(0)

    def _start_again(self, tick: int) -> None:
        self._scores: list[float | None] = []
        self._megabytes: list[float] = []
        self._seconds: deque[float] = deque(maxlen=LAST_ROUNDS)
        self._offset, self._last_line = 0, b""
        self._began, self._marks = tick, [(tick, 0)]
        self._broken: str | None = None
        self.reached = None

    def look(self, tick: int) -> None:
        """Read what is new."""
        before = (self.state, len(self._scores), self._began, self.problem)
        if self.experiment is None and self.problem is None:
            self.experiment, self.goal, self.problem = _read_experiment(self.found)
        if self.experiment is not None:
            self._look_at_summary()  # first: what was written before it is then read as well
            self._look_at_metrics(tick)
            if self._marks[-1][1] != len(self._scores):
                self._marks.append((tick, len(self._scores)))
        self.state = self._state()
        if before != (self.state, len(self._scores), self._began, self.problem):
            self.changed = tick

    def _look_at_summary(self) -> None:
        path = self.found.folder / SUMMARY
        if (stamp := stamp_of(path)) == self._summary_stamp:
            return
        self._summary_stamp, self.summary, self.problem = stamp, {}, None
        if stamp is None:
            return
        try:
            self.summary = summary_of(read_plain(path, MOST_BYTES), path)
        except (OSError, UserError) as problem:
            self.problem = f"{SUMMARY} cannot be read: {shortened(problem)}"
            return
        if self.goal is None and self.summary.get("goal"):
            self.goal = Goal(**self.summary["goal"])

    def _look_at_metrics(self, tick: int) -> None:
        path = self.found.folder / METRICS
        if stamp_of(path) == self._metrics_stamp and not self.is_there_more:
            return
        self.is_there_more, self._broken = False, None
        try:
            with opened_plain(path) as (descriptor, self._metrics_stamp):
                kept = read_at(descriptor, self._offset - len(self._last_line), len(self._last_line))
                if kept != self._last_line:
                    self._start_again(tick)
                new = read_at(descriptor, self._offset, MOST_AT_ONCE)
        except OSError as problem:
            self._broken = f"{METRICS} cannot be read: {problem.strerror or 'it is no regular file'}"
            return
        self._take(new)
        self.is_there_more = len(new) == MOST_AT_ONCE and self._broken is None and not self._is_full

    def _take(self, new: bytes) -> None:
        """Take the lines that are complete."""
        whole, end, _ = new.rpartition(b"\n")
        if not end and len(new) == MOST_AT_ONCE:
            self._broken = f"{METRICS} has a line of more than {MOST_AT_ONCE:,} bytes"
        for line in whole.split(b"\n") if end else ():
            if self._is_full:
                return
            try:
                record = record_from_json(json.loads(line))
                if record.round != len(self._scores) + 1:
                    raise ValueError("another round was expected")
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                self._broken = f"{METRICS} is damaged at line {len(self._scores) + 1}"
                return
            self._add(record)
            self._last_line = line + b"\n"
            self._offset += len(self._last_line)

    @property
    def _is_full(self) -> bool:
        return len(self._scores) >= MOST_ROUNDS

    def _add(self, record: RoundRecord) -> None:
        if self.goal is None and record.scores:
            self.goal = goal_named(record.scores)
        score = None if self.goal is None else _finite(record.scores.get(self.goal.score))
        self._scores.append(score)
        self._megabytes.append(_finite((record.bytes_down + record.bytes_up) / 1e6) or 0.0)
        if (seconds := _finite(record.seconds)) is not None and seconds >= 0:
            self._seconds.append(seconds)
        assert self.experiment is not None
        target = self.experiment.target
        if self.reached is None and score is not None and target is not None and self.goal is not None:
            self.reached = first_round_reaching([record], target, self.goal)

    def _state(self) -> str:
        if self.problem or self._broken:
            return "damaged"
        if self.summary:
            return next((words for name, words in ENDS.items() if self.summary.get(name)), "finished")
        locked = is_locked(self.found.folder)
        if locked is None:
            locked = self._quiet() < QUIET + 3 * self._pace()
        return "running" if locked else "interrupted"

    def _quiet(self) -> float:
        """Seconds since the last line was written."""
        written = self._metrics_stamp.changed / 1e9 if self._metrics_stamp is not None else 0.0
        return max(0.0, time.time() - written)

    def _pace(self) -> float:
        """Seconds of a round."""
        return sum(self._seconds) / len(self._seconds) if self._seconds else 0.0

    def row(self) -> dict[str, Any]:
        """What the table says of it."""
        assert self.experiment is not None
        notes = [self.problem, self._broken, *(self.summary.get(name) for name in ENDS)]
        if self._is_full:
            notes.append(f"only the first {MOST_ROUNDS:,} rounds are shown")
        scores = [score for score in self._scores if score is not None]
        return {
            "run": self.number,
            "where": shortened(self.found.where),
            "method": shortened(self.experiment.method.name),
            "seed": self.experiment.seed,
            "round": len(self._scores),
            "rounds": self.experiment.rounds,
            "score": scores[-1] if scores else None,
            "reached": self.reached,
            "state": self.state,
            "note": "; ".join(shortened(note) for note in notes if note),
            "pace": _finite(self._pace()),
            "quiet": _finite(self._quiet()),
            "may_end_earlier": self.experiment.stop_at_target or self.experiment.patience is not None,
            "gflops": _finite(self.summary.get("gflops_per_round")),
        }

    def points(self, since: int) -> dict[str, Any]:
        """The rounds that have come since a tick: which is the first of them, their scores and megabytes."""
        first = 0
        if since >= self._began:
            first = self._marks[bisect_right(self._marks, since, key=lambda mark: mark[0]) - 1][1]
        return {"from": first, "scores": self._scores[first:], "megabytes": self._megabytes[first:]}


def _read_experiment(found: FoundRun) -> tuple[Experiment | None, Goal | None, str | None]:
    """The experiment, the goal of its task if that is a built-in one, and what is wrong; no code is run."""
    try:
        text = read_plain(found.folder / EXPERIMENT, MOST_BYTES).decode("utf-8")
        experiment = Experiment.from_text(text, EXPERIMENT)
    except NotPlain:
        return None, None, f"{EXPERIMENT} is too large, or no regular file"
    except OSError as problem:
        return None, None, f"{EXPERIMENT} cannot be read: {problem.strerror or problem}"
    except UnicodeDecodeError as problem:
        return None, None, f"{EXPERIMENT} is not valid TOML: {shortened(problem)}"
    except UserError as problem:
        return None, None, shortened(problem)
    return experiment, goal_of(experiment), None


def _finite(value: Any) -> float | None:
    """A number as JSON and a screen can have it."""
    try:
        number = float(value)
    except (TypeError, OverflowError):
        return None
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None
