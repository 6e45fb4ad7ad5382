"""How far some work is: a bar on a terminal and in a notebook, plain lines elsewhere, which go to stderr."""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedtrip.native.library import library, why_missing
from fedtrip.printable import one_line
from fedtrip.tasks.interface import ACCURACY
from fedtrip.terminal import err

if TYPE_CHECKING:
    from fedtrip.comparison.trials import Trial
    from fedtrip.comparison.tuning import Plan
    from fedtrip.comparison.variants import Variant
    from fedtrip.rounds.record import RoundRecord
    from fedtrip.runs.event_files import EventFiles
    from fedtrip.tasks.interface import Goal

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.2
"""Of a notebook: each one is a message to the browser."""


class _Display(Protocol):
    """Where it is shown."""

    def start(self) -> None: ...

    def show(self, done: int, note: str) -> None: ...

    def stop(self) -> None: ...


class _Nowhere:
    """For who wants to see nothing."""

    def start(self) -> None:
        """Show nothing."""

    def show(self, done: int, note: str) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Show nothing."""


class _Bar(_Nowhere):
    """A bar on a terminal, gone when the work is done."""

    def __init__(self, title: str, total: int) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=8),  # all of it is to fit 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=err,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=total, note="")

    def start(self) -> None:
        self._bar.start()

    def show(self, done: int, note: str) -> None:
        self._bar.update(self._task, completed=done, note=note)

    def stop(self) -> None:
        self._bar.stop()


class _Lines(_Nowhere):
    """A line now and then, for a file or a pipe."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._last = title, total, 0.0

    def show(self, done: int, note: str) -> None:
        now = time.monotonic()
        if done >= self._total or now - self._last > SECONDS_BETWEEN_LINES:
            self._last = now
            err.print(f"{self._title}: {done}/{self._total}  {note}", markup=False, soft_wrap=True)


class _InNotebook(_Nowhere):
    """A bar in a notebook's output: plain HTML that is replaced as the work goes on, without a package of widgets."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._last, self._shown = title, total, 0.0, (0, "")
        self._began = time.monotonic()
        self._handle: Any = None

    def start(self) -> None:
        self._began = time.monotonic()
        self._handle = _notebook().display.display(self._html(), display_id=True)

    def show(self, done: int, note: str) -> None:
        self._shown = (done, note)
        now = time.monotonic()
        if self._handle is not None and now - self._last > SECONDS_BETWEEN_UPDATES:
            self._last = now
            self._handle.update(self._html())

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.update(self._html(over=True))

    def _html(self, *, over: bool = False) -> Any:
        done, note = self._shown
        spent = time.monotonic() - self._began
        left = f"{spent / done * (self._total - done):.0f} s left" if done else ""
        bar = "" if over else f'<progress value="{done}" max="{self._total}"></progress> '
        told = [self._title, f"{done}/{self._total}", note, f"{spent:.1f} s" if over else left]
        return _notebook().display.HTML(bar + html.escape(" · ".join(filter(None, told))))


def _notebook() -> Any:
    """IPython if this process is a notebook's kernel, else None; nothing is imported for it."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return found if hasattr(shell, "kernel") else None


class Live:
    """Shows how far some work is. `advance` moves it some steps with a short note."""

    def __init__(self, title: str, total: int, *, quiet: bool = False) -> None:
        self._done, self._quiet = 0, quiet
        shown: Callable[[str, int], _Display] = (
            _InNotebook if _notebook() is not None else _Bar if err.is_terminal else _Lines
        )
        self._display: _Display = _Nowhere() if quiet else shown(one_line(title), total)

    def advance(self, note: str, steps: int = 1) -> None:
        """So many steps more are done."""
        self._done += steps
        self._display.show(self._done, one_line(note))

    def warn(self, message: str) -> None:
        """A line that stays."""
        err.print(f"[yellow]warning:[/] {escape(one_line(message))}", soft_wrap=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            _say_if_without_library()
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.stop()


class LiveRun:
    """The rounds of one run, told by its `on_round`."""

    def __init__(self, title: str, rounds: int, goal: Goal, target: float | None, *, quiet: bool = False) -> None:
        self._live, self._goal, self._target = Live(title, rounds, quiet=quiet), goal, target
        self.done = 0
        """the last round that was told"""

    def round(self, record: RoundRecord) -> None:
        """A round is done."""
        steps, self.done = record.round - self.done, record.round  # a resumed run begins further on
        self._live.advance(note_of(record, self._goal, self._target), steps)
        if (message := refusals(record)) is not None:
            self._live.warn(message)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)


class LiveComparison:
    """One bar over all rounds of all trials, and event files for each trial if they are wanted."""

    def __init__(self, quiet: bool = False, open_events: Callable[[Path], EventFiles] | None = None) -> None:
        self._quiet, self._open_events = quiet, open_events
        self._events: dict[str, EventFiles] = {}
        self._live: Live | None = None
        self._done: dict[str, int] = {}

    def begin(self, variants: Sequence[Variant], trials: int) -> None:
        """Everything is checked; this will be run."""
        rounds = sum(variant.experiment.rounds for variant in variants) * trials
        self._live = Live(f"{len(variants)} variants × {trials} trials", rounds, quiet=self._quiet)
        self._live.__enter__()

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""
        assert self._live is not None
        steps = record.round - self._done.get(trial.name, 0)  # a resumed trial begins further on
        self._done[trial.name] = record.round
        if self._open_events is not None:
            if trial.name not in self._events:
                self._events[trial.name] = self._open_events(trial.out)
            self._events[trial.name](record)
        self._live.advance(trial.name + score_of(record, trial.goal), steps)
        if (message := refusals(record)) is not None:
            self._live.warn(f"{trial.name}: {message}")

    def finished(self, trial: Trial) -> None:
        """A trial is done."""
        assert self._live is not None
        if trial.name in self._events:
            self._events.pop(trial.name).close()
        left = trial.rounds - self._done.get(trial.name, 0)
        if left:
            self._live.advance(f"{trial.name} finished early", steps=left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for events in self._events.values():
            events.close()
        if self._live is not None:
            self._live.__exit__(None, None, None)


class LiveTuning:
    """One bar over all rounds of all configurations and of the verdict."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live: Live | None = None
        self._done: dict[str, int] = {}

    def begin(self, plan: Plan, rounds: int) -> None:
        """Everything is checked; this will be run."""
        count = plan.halving.configurations[0]
        self._live = Live(f"{len(plan.methods)} methods × {count} configurations", rounds, quiet=self._quiet)
        self._live.__enter__()

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""
        assert self._live is not None
        steps = record.round - self._done.get(trial.name, 0)  # a resumed trial begins further on
        self._done[trial.name] = record.round
        scores = record.validation if trial.until is not None else record.scores  # no test score before the verdict
        score = scores.get(trial.goal.score)
        self._live.advance(trial.name + ("" if score is None else f": {trial.goal.shown(score)}"), steps)
        if (message := refusals(record)) is not None and trial.until is None:  # a configuration may well diverge
            self._live.warn(f"{trial.name}: {message}")

    def finished(self, trial: Trial) -> None:
        """A trial has done all that it is to do for now."""
        assert self._live is not None
        left = trial.rounds - self._done.get(trial.name, 0)
        self._done[trial.name] = trial.rounds
        if left:
            self._live.advance(f"{trial.name} is done", steps=left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)


@cache
def _say_if_without_library() -> None:
    """One line, once a command, unless it was the user's wish."""
    if library() is None and os.environ.get("FEDTRIP_NATIVE") != "off":
        told = f"[yellow]note:[/] without the native library, torch computes: {escape(one_line(why_missing() or ''))}"
        err.print(told, soft_wrap=True)


def note_of(record: RoundRecord, goal: Goal, target: float | None) -> str:
    """The goal's score and the loss of a round in a few characters."""
    if not record.scores:
        return "not evaluated"
    score, loss = record.scores[goal.score], record.loss
    reached = " ✓" if target is not None and score is not None and goal.reaches(score, target) else ""
    told = "not finite" if score is None else goal.shown(score)
    return f"{goal.score} {told}  loss {'not finite' if loss is None else f'{loss:.3f}'}{reached}"


def score_of(record: RoundRecord, goal: Goal) -> str:
    """The goal's score alone, with what leads it in; nothing for a round that has none."""
    score = record.scores.get(goal.score)
    if score is None:
        return ""
    return f": {goal.shown(score)}" if goal == ACCURACY else f": {goal.score} {goal.shown(score)}"


def refusals(record: RoundRecord) -> str | None:
    """A line about the clients that did not answer or were left out of a round, if any."""
    parts = [f"client {client}: never answered" for client in record.dropped]
    parts += [f"client {client}: {reason}" for client, reason in record.refused.items()]
    if not parts:
        return None
    what = "the model is as it was" if record.unchanged else "left out of the average"
    return f"round {record.round}: {what}: {', '.join(parts)}"
