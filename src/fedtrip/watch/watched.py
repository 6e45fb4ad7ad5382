"""All runs below some folders, and what is new of them since somebody last asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from fedtrip.errors import shortened
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.names import shown_method, title_of
from fedtrip.figures.palette import looks
from fedtrip.printable import printable
from fedtrip.report.charts import appearance, goal_data
from fedtrip.runs.unfinished import goal_of
from fedtrip.tasks.interface import Goal
from fedtrip.watch.finding import Comparison, Finder, Found, FoundRun
from fedtrip.watch.following import Followed

SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_SEARCHES = 0.5, 2.0
SEARCHING_PART = 0.05
"""Of the time at most this part is spent in looking for new runs, however many folders there are."""
MOST_REMARKS = 20
SECONDS_OF_A_LOOK = 1.0
"""Then an answer goes out, and the rest is read for the next one."""


@dataclass
class _Part:
    """Runs that belong into one chart: on the same data, model and partition, with the same score."""

    number: int
    title: str
    goal: Goal
    targets: set[float | None] = field(default_factory=set)
    variants: dict[str, str] = field(default_factory=dict)
    """the experiment, whatever its seed → its label"""
    methods: dict[str, str] = field(default_factory=dict)
    """label → method"""
    changed: int = 0

    def number_of(self, experiment: Experiment, label: str, group: str, tick: int) -> int:
        """The number of the experiment's variant, a new one if it is new; the first one to come has the label."""
        plain = experiment.model_copy(update={"seed": 0}).to_toml()
        if plain not in self.variants:
            names = chain([label, f"{label} ({group})"], (f"{label} ({group}, {n})" for n in count(2)))
            self.variants[plain] = next(name for name in names if name not in self.methods)
            self.methods[self.variants[plain]] = experiment.method.name
            self.targets.add(experiment.target)
            self.changed = tick
        return list(self.variants).index(plain)

    def as_json(self) -> dict[str, Any]:
        """What the page needs to draw it."""
        return {
            "part": self.number,
            "title": printable(self.title),
            "goal": goal_data(self.goal),
            "target": next(iter(self.targets)) if len(self.targets) == 1 else None,
            "variants": [
                {"label": printable(shortened(label)), **appearance(look)}
                for label, look in looks(self.methods).items()
            ],
        }


class Watched:
    """Reads when it is asked, and not too often; several may ask at the same time."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._finder, self._found = Finder(folders), Found()
        self._followed: dict[FoundRun, Followed] = {}
        self._parts: dict[tuple[str, Goal], _Part] = {}
        self._announced: list[Comparison] = []
        self._places: dict[int, tuple[int, int]] = {}
        """number of a run → those of its part and its variant"""
        self._numbers = self._tick = self._turn = 0
        self._next_look = self._next_search = 0.0
        self._is_there_more = False
        self._lock = threading.Lock()

    def news(self, since: int) -> dict[str, Any]:
        """What has changed since a tick that an earlier answer named; 0 for everything."""
        with self._lock:
            if time.monotonic() >= self._next_look:
                self._look()
            since = since if since <= self._tick else 0
            shown = {run.number: run for run in self._followed.values() if run.number in self._places}
            return {
                "tick": self._tick,
                "more": self._is_there_more,
                "waiting": self._found.waiting,
                "remarks": self._remarks(),
                "parts": [part.as_json() for part in self._parts.values() if part.changed > since],
                "here": list(shown),
                "runs": [self._run_as_json(run, since) for run in shown.values() if run.changed > since],
            }

    def _remarks(self) -> list[str]:
        broken = [
            f"'{run.found.where}': {run.problem}"
            for run in self._followed.values()
            if run.experiment is None and run.problem
        ]
        told = [printable(shortened(remark, 400)) for remark in (*self._found.remarks, *broken)]
        left = len(told) - MOST_REMARKS
        return told if left <= 0 else [*told[:MOST_REMARKS], f"{left} more remarks like these."]

    def _run_as_json(self, run: Followed, since: int) -> dict[str, Any]:
        part, variant = self._places[run.number]
        row = {name: printable(value) if isinstance(value, str) else value for name, value in run.row().items()}
        return {**row, "part": part, "variant": variant, **run.points(since)}

    def _look(self) -> None:
        """Look for runs if it is time, and read each of them, for a second at most."""
        began = time.monotonic()
        self._tick += 1
        if began >= self._next_search:
            self._search()
            took = time.monotonic() - began
            self._next_search = began + max(SECONDS_BETWEEN_SEARCHES, took / SEARCHING_PART)
        runs = list(self._followed.values())
        self._is_there_more = False
        for place in range(len(runs)):
            if time.monotonic() - began > SECONDS_OF_A_LOOK and place:
                self._turn, self._is_there_more = self._turn + place, True  # the others are the first next time
                break
            run = runs[(self._turn + place) % len(runs)]
            run.look(self._tick)
            self._place(run)
            self._is_there_more |= run.is_there_more
        self._next_look = time.monotonic() + (0.0 if self._is_there_more else SECONDS_BETWEEN_LOOKS)

    def _search(self) -> None:
        self._found = self._finder.look()
        for comparison in self._found.comparisons:
            if not any(comparison is known for known in self._announced):
                self._announce(comparison)
        self._announced = self._found.comparisons
        now = {}
        for found in self._found.runs:
            if (run := self._followed.get(found)) is None:
                self._numbers += 1
                run = Followed(found, self._numbers)
            now[found] = run
        self._followed = now

    def _announce(self, comparison: Comparison) -> None:
        """The variants of a comparison have the colours of its report, whichever of them begin first."""
        for label, experiment in comparison.variants:
            if (goal := goal_of(experiment)) is not None:
                self._part(experiment, goal).number_of(experiment, label, comparison.name, self._tick)

    def _place(self, run: Followed) -> None:
        if run.number in self._places or run.experiment is None or run.goal is None:
            return
        part = self._part(run.experiment, run.goal)
        label = run.found.label or run.summary.get("method_label") or shown_method(run.experiment.method.name)
        variant = part.number_of(run.experiment, label, run.found.group, self._tick)
        self._places[run.number] = part.number, variant
        run.changed = self._tick

    def _part(self, experiment: Experiment, goal: Goal) -> _Part:
        key = (shortened(title_of(experiment)), goal)
        if key not in self._parts:
            self._parts[key] = _Part(len(self._parts), *key, changed=self._tick)
        return self._parts[key]
