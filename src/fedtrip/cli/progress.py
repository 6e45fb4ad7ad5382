"""The live view of a run: a progress bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import os
import time
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedtrip.cli.console import err
from fedtrip.native.library import library, why_missing
from fedtrip.printable import one_line
from fedtrip.tasks.interface import ACCURACY

if TYPE_CHECKING:
    from fedtrip.rounds.record import RoundRecord
    from fedtrip.tasks.interface import Goal

SECONDS_BETWEEN_LINES = 5.0


class Live:
    """Shows how far some work is. `advance` moves it one step with a short note."""

    def __init__(self, title: str, total: int, *, quiet: bool = False) -> None:
        self._title, self._total, self._done, self._last_line = one_line(title), total, 0, 0.0
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=8),  # all of it is to fit 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=err,
            disable=quiet or not err.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(self._title, total=total, note="")

    def advance(self, note: str, steps: int = 1) -> None:
        """So many steps more are done."""
        note = one_line(note)
        self._done += steps
        self._bar.update(self._task, advance=steps, note=note)
        now = time.monotonic()
        due = self._done >= self._total or now - self._last_line > SECONDS_BETWEEN_LINES
        if due and not self._quiet and not err.is_terminal:
            self._last_line = now
            err.print(f"{self._title}: {self._done}/{self._total}  {note}", markup=False, soft_wrap=True)

    def warn(self, message: str) -> None:
        """A line that stays."""
        err.print(f"[yellow]warning:[/] {escape(one_line(message))}", soft_wrap=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            _say_if_without_library()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


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
