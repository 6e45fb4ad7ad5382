"""A comparison's rows as tables: one list of columns for the terminal, Markdown, CSV, JSON and the report."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedtrip.comparison.alike import alike_in_words
from fedtrip.comparison.client_device import FORMULA
from fedtrip.comparison.marks import SIGNS, Mark, mark_of_speedup, rule_in_words
from fedtrip.comparison.variants import WHOSE, Row
from fedtrip.printable import printable
from fedtrip.runs.history import LAST_ROUNDS
from fedtrip.statistics import Estimate, Ratio
from fedtrip.tasks.interface import Goal

BOUND_WORDS = {">": "at least ('>')", "<": "at most ('<')", "?": "at least or at most ('?')"}
ABBREVIATED = {"accuracy": "acc."}
"""Scores whose names are too long for the title of a column."""
TELLING = 6
"""The importance of the columns by which one tells the variants apart."""
LAST_FIRST = 1e300
"""Sorts cells without a number behind all others."""

Datum = str | float | Estimate | Ratio | None
Of = Callable[[Row], Datum]


@dataclass(frozen=True)
class Entry:
    """A value for programs: its name, and what a CSV file has of it, each in a column of its own."""

    name: str
    of: Of
    parts: tuple[str, ...] = ()
    """none for a number or a text"""

    def names(self) -> list[str]:
        """The titles of its columns in a CSV file."""
        return [f"{self.name}_{part}" for part in self.parts] or [self.name]

    def values(self, row: Row) -> list[Any]:
        """A row's cells below them."""
        value = self.of(row)
        return [getattr(value, part, None) for part in self.parts] if self.parts else [value]


def an_estimate(name: str, of: Callable[[Row], Estimate | None]) -> Entry:
    """A mean over the trials."""
    return Entry(name, of, ("mean", "std"))


@dataclass(frozen=True)
class Column:
    """One column of the table, in all its forms."""

    title: str
    text: Callable[[Row], str]
    """a row's cell, as people read it"""
    sort: Callable[[Row], float | str]
    """what the cell is sorted by"""
    data: tuple[Entry, ...]
    """its values for programs"""
    note: str = ""
    """how to read it"""
    brief: Callable[[Row], str] | None = None
    """the cell where there is little room, if it is another"""
    mark: Callable[[Row], Mark] = lambda _row: ""
    """what the cell is marked as"""
    importance: int = 0
    """which columns a terminal shows if it has not room for all, the highest; 0 is never shown there"""
    is_shown: bool = True
    """whether people get it; programs always do"""

    def cell(self, row: Row, *, brief: bool = False) -> str:
        """A row's cell, with its mark."""
        text = self.brief(row) if brief and self.brief is not None else self.text(row)
        return text + SIGNS[self.mark(row)]


def columns(rows: Sequence[Row], *, every: bool = False) -> list[Column]:
    """The columns of a table of these rows; with `every` also those that only programs get."""
    names = (
        Entry("variant", lambda row: row.variant),
        Entry("method", lambda row: row.method),
        Entry("trials", lambda row: row.trials),
    )
    variant = Column("variant", lambda row: row.variant, lambda row: row.variant, names, importance=9)
    made = [variant, *_to_target(rows), _final_score(rows), *_clients(rows), *_costs(rows), *_further_costs(rows)]
    return [column for column in made if column.is_shown or every]


def _to_target(rows: Sequence[Row]) -> list[Column]:
    """Rounds to target, how many trials got there, and the speed-up."""
    goal, targets = _goal(rows), {row.target for row in rows}
    only = targets.pop() if len(targets) == 1 else None
    some = any(row.target is not None for row in rows)
    score = goal.score if goal is not None else "score"
    marked = "; '>' marks means in which a run that never got there counts as its last round"
    met = "as good as the target" if goal is None else f"{goal.sign} target"
    how = f"Rounds to target: first round with test {score} {met}{marked if any(map(_bound, rows)) else ''}."
    return [
        Column(
            f"rounds to {goal.shown_target(only)}" if only is not None and goal is not None else "rounds to target",
            lambda row: _bound(row) + _spread(row.rounds, 1) if row.target is not None else "no target",
            lambda row: LAST_FIRST if row.target is None else row.rounds.mean + 0.5 * bool(row.censored),  # a bound
            (Entry("target", lambda row: row.target), an_estimate("rounds", lambda row: row.rounds)),
            note=how if some else "",
            mark=lambda row: row.rounds_mark,
            importance=7,
        ),
        Column(
            "reached",
            lambda row: f"{row.trials - row.censored}/{row.trials}" if row.target is not None else "–",
            lambda row: LAST_FIRST if row.target is None else (row.trials - row.censored) / row.trials,
            (Entry("censored", lambda row: row.censored),),
            importance=1,
        ),
        Column(
            "speed-up [95 %]",
            lambda row: interval(row.speedup) if row.target is not None else "–",
            lambda row: LAST_FIRST if row.target is None or row.speedup is None else row.speedup.mean,
            (
                Entry("baseline", lambda row: row.baseline),
                Entry("speedup", lambda row: row.speedup, ("mean", "low", "high", "bound", "left_out")),
                Entry("speedup_p_holm", lambda row: row.speedup_p),
            ),
            note=_note_on_speedups(rows) if some else "",
            mark=mark_of_speedup,
            importance=8,
        ),
    ]


def _final_score(rows: Sequence[Row]) -> Column:
    goal = _goal(rows)
    name = goal.score if goal is not None else "score"
    return Column(
        f"final {ABBREVIATED.get(name, name)}" + (" %" if goal is not None and goal.is_share else ""),
        lambda row: "none" if row.final_score is None else score_with_spread(row.goal, row.final_score),
        lambda row: LAST_FIRST if row.final_score is None else row.final_score.mean,
        (an_estimate(f"final_{name}", lambda row: row.final_score),),
        note=f"Final {name}: mean of the last {LAST_ROUNDS} evaluated rounds.",
        mark=lambda row: row.score_mark,
        importance=6,
    )


def _clients(rows: Sequence[Row]) -> list[Column]:
    """How the models serve the clients, each on a test set of its own; nothing where they were not asked."""
    goal = _goal(rows)
    unit = " %" if goal is not None and goal.is_share else ""
    made = []
    for whose in WHOSE:
        of_whom = "" if whose == "global" else "personal "
        for name, title in {"mean": "client mean", "worst_tenth": "worst 10 %", "unseen": "unseen"}.items():
            if any(row.client_scores.get(whose, {}).get(name) is not None for row in rows):
                made.append(_client_column(whose, name, f"{of_whom}{title}{'' if title.endswith('%') else unit}"))
    told = ""
    if made:
        score = goal.score if goal is not None else "score"
        told = (
            f"Client mean: {score} on each client's own test set, of the last model; worst 10 %: of the tenth of the "
            "clients whom it serves worst; unseen: of those that never took part"
        )
        own = any("personal" in row.client_scores for row in rows)
        told += "; personal: under each client's own model." if own else "."
    return [replace(column, note=told) for column in made]


def _client_column(whose: str, name: str, title: str) -> Column:
    def of(row: Row) -> Estimate | None:
        return row.client_scores.get(whose, {}).get(name)

    def text(row: Row) -> str:
        value = of(row)
        return "–" if value is None else score_with_spread(row.goal, value)

    def sort(row: Row) -> float:
        value = of(row)
        return LAST_FIRST if value is None else value.mean

    shown = {("personal", "mean"): 5, ("global", "mean"): 4}.get((whose, name), 0)
    return Column(title, text, sort, (an_estimate(f"clients_{whose}_{name}", of),), importance=shown)


def _costs(rows: Sequence[Row]) -> list[Column]:
    """What a terminal has room for."""
    declared = any(row.gflops is not None for row in rows)
    extent = "to target" if any(row.target is not None for row in rows) else "those of the whole run"

    def gflops(row: Row, spread: bool) -> str:
        return "not declared" if row.gflops is None else _bound(row) + _spread(row.gflops, 3, spread=spread)

    def megabytes(row: Row, spread: bool) -> str:
        return _bound(row) + _spread(row.megabytes, 2, spread=spread)

    return [
        Column(
            "GFLOPs",
            lambda row: gflops(row, spread=True),
            lambda row: LAST_FIRST if row.gflops is None else row.gflops.mean,
            (an_estimate("gflops", lambda row: row.gflops),),
            note="GFLOPs: the paper's accounting, one client, forward passes and attaching operations." * declared,
            brief=lambda row: gflops(row, spread=False),
            importance=2,
        ),
        Column(
            "MB",
            lambda row: megabytes(row, spread=True),
            lambda row: row.megabytes.mean,
            (an_estimate("megabytes", lambda row: row.megabytes),),
            note=f"MB: all clients, down and up. Costs are {extent}.",
            brief=lambda row: megabytes(row, spread=False),
            importance=3,
        ),
    ]


def _further_costs(rows: Sequence[Row]) -> list[Column]:
    """What it has no room for."""
    estimated = rows[0].device_seconds is not None

    def seconds(row: Row) -> str:
        return "–" if row.device_seconds is None else _bound(row) + _spread(row.device_seconds, 1)

    return [
        Column(
            "GMACs",
            lambda row: _bound(row) + _spread(row.gmacs, 2),
            lambda row: row.gmacs.mean,
            (an_estimate("gmacs", lambda row: row.gmacs),),
            note="GMACs: ours, all clients and the server, forward and backward.",
        ),
        Column(
            "kB kept",
            lambda row: f"{row.client_megabytes * 1e3:.0f}",
            lambda row: row.client_megabytes,
            (Entry("client_megabytes", lambda row: row.client_megabytes),),
            note="kB kept: what a client stores between its rounds.",
        ),
        Column(
            "s (estimate)",
            seconds,
            lambda row: LAST_FIRST if row.device_seconds is None else row.device_seconds.mean,
            (an_estimate("device_seconds", lambda row: row.device_seconds),),
            note=f"s (estimate): {FORMULA}.",
            is_shown=estimated,
        ),
    ]


BEST_AND_TOLD = ("°: the best and what is not significantly worse,", "*: a speed-up")
"""What the signs of marked cells mean, where there are no fonts."""


def note(rows: Sequence[Row], shown: Sequence[Column], marked: tuple[str, str] = BEST_AND_TOLD) -> str:
    """How to read a table with these columns; `marked` says what the marks look like."""
    means = ["Mean ± standard deviation over trials."] if any(row.trials > 1 for row in rows) else []
    marks = rule_in_words([column.mark(row) for column in shown for row in rows], *marked)
    notes = dict.fromkeys(column.note for column in shown)
    return " ".join(filter(None, [*means, *notes, alike_in_words(rows), marks]))


def _note_on_speedups(rows: Sequence[Row]) -> str:
    speedups = [row.speedup for row in rows if row.speedup is not None]
    if not speedups:
        return ""
    told = f"Speed-up: {rows[0].baseline}'s rounds over the method's"
    if any(ratio.low is not None for ratio in speedups):
        told += ", geometric mean paired by seed, 95 % interval"
    bounds = [words for mark, words in BOUND_WORDS.items() if any(ratio.bound == mark for ratio in speedups)]
    if bounds:
        told += f"; such runs make it {', or '.join(bounds)} what is shown"
    partial = next((ratio for ratio in speedups if ratio.left_out), None)
    if partial is not None:
        told += f"; {_counted(partial)}: on the other seeds neither reached the target"
    return f"{told}."


def as_markdown(rows: Sequence[Row], title: str) -> str:
    """A Markdown page with the table and how to read it."""
    table, how = markdown_table(rows)
    return f"# {title}\n\n{table}\n\n{how}\n"


def markdown_table(rows: Sequence[Row]) -> tuple[str, str]:
    """The table in Markdown, and how to read it."""
    shown = columns(rows)
    lines = [[column.title for column in shown], ["---"] * len(shown)]
    lines += [[column.cell(row) for column in shown] for row in rows]
    return "\n".join(map(markdown_row, lines)), note(rows, shown)


def markdown_row(texts: Sequence[str]) -> str:
    """One line of a Markdown table; a bar within a text does not end its cell."""
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def as_text(rows: Sequence[Row], most: int = 20) -> str:
    """The most telling columns in plain lines, for an object's text: the first so many rows."""
    shown = [column for column in columns(rows) if column.importance >= TELLING]
    lines = [[column.title for column in shown], *([column.cell(row) for column in shown] for row in rows[:most])]
    widths = [max(len(line[at]) for line in lines) for at in range(len(shown))]

    def written(line: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        return "  ".join([line[0].ljust(widths[0]), *padded[1:]])

    told = [printable(written(line)) for line in lines]
    return "\n".join([*told, *([f"… {len(rows) - most} more"] if len(rows) > most else [])])


def as_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Everything, as plain JSON data."""
    entries = [entry for column in columns(rows, every=True) for entry in column.data]
    return [{entry.name: _plain(entry.of(row)) for entry in entries} for row in rows]


def as_csv(rows: Sequence[Row]) -> str:
    """Numbers only, one column each: first what is one number, then means with deviations, then ratios."""
    records = flat_records(rows)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def flat_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same as plain data, one value a column."""
    entries = [entry for column in columns(rows, every=True) for entry in column.data]
    entries.sort(key=lambda entry: len(entry.parts))
    return [
        {name: value for entry in entries for name, value in zip(entry.names(), entry.values(row), strict=True)}
        for row in rows
    ]


def _plain(value: Datum) -> Any:
    return asdict(value) if isinstance(value, (Estimate, Ratio)) else value


def _goal(rows: Sequence[Row]) -> Goal | None:
    """The goal, if all rows have the same."""
    goals = {row.goal for row in rows}
    return goals.pop() if len(goals) == 1 else None


def _bound(row: Row) -> str:
    """The mark of a mean in which a run counts that never got there."""
    return ">" if row.censored and row.target is not None else ""


def score_with_spread(goal: Goal, value: Estimate) -> str:
    """A score in the goal's unit: a share in per cent, without the sign."""
    if goal.is_share:
        return _spread(value, 2, scale=100)
    return f"{value.mean:.4g}" + ("" if value.std is None else f"±{value.std:.2g}")


def _spread(value: Estimate, digits: int, scale: float = 1.0, *, spread: bool = True) -> str:
    mean = f"{value.mean * scale:.{digits}f}"
    return mean if value.std is None or not spread else f"{mean}±{value.std * scale:.{digits}f}"


def interval(ratio: Ratio | None) -> str:
    """A ratio with its 95 % interval, and how many of the pairs count if not all do."""
    if ratio is None:
        return "–"
    mean = f"{ratio.bound}{ratio.mean:.2f}×"
    ends = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return mean + ends + (f" {_counted(ratio)}" if ratio.left_out else "")


def _counted(ratio: Ratio) -> str:
    return f"({ratio.pairs} of {ratio.pairs + ratio.left_out})"
