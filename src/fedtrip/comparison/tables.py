"""A comparison's rows as text: for the terminal, Markdown, CSV and JSON, all from the same cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedtrip.comparison.client_device import FORMULA
from fedtrip.comparison.variants import Row
from fedtrip.runs.history import LAST_ROUNDS
from fedtrip.statistics import Estimate, Ratio

FINAL_ACCURACY = f"Final accuracy: mean of the last {LAST_ROUNDS} evaluated rounds."
BOUND_WORDS = {">": "at least ('>')", "<": "at most ('<')", "?": "at least or at most ('?')"}


def note(rows: Sequence[Row]) -> str:
    """How to read the table: of its columns and marks those that it has."""
    told = ["Mean ± standard deviation over trials."] if any(row.trials > 1 for row in rows) else []
    if any(row.target is not None for row in rows):
        censored = any(row.censored and row.target is not None for row in rows)
        marked = "; '>' marks means in which a run that never got there counts as its last round" if censored else ""
        told.append(f"Rounds to target: first round with test accuracy ≥ target{marked}.")
        told += _note_on_speedups([row.speedup for row in rows if row.speedup is not None])
    told.append(FINAL_ACCURACY)
    if any(row.gflops is not None for row in rows):
        told.append("GFLOPs: the paper's accounting, one client, forward passes and attaching operations.")
    extent = "to target" if any(row.target is not None for row in rows) else "those of the whole run"
    return " ".join([*told, f"MB: all clients, down and up. Costs are {extent}."])


def _note_on_speedups(speedups: Sequence[Ratio]) -> list[str]:
    if not speedups:
        return []
    told = "Speed-up: fedavg's rounds over the method's"
    if any(ratio.low is not None for ratio in speedups):
        told += ", geometric mean paired by seed, 95 % interval"
    bounds = [words for mark, words in BOUND_WORDS.items() if any(ratio.bound == mark for ratio in speedups)]
    if bounds:
        told += f"; such runs make it {', or '.join(bounds)} what is shown"
    partial = next((ratio for ratio in speedups if ratio.left_out), None)
    if partial is not None:
        told += f"; {_counted(partial)}: on the other seeds neither reached the target"
    return [f"{told}."]


def header(rows: Sequence[Row]) -> list[str]:
    """Column titles."""
    targets = {row.target for row in rows}
    only = targets.pop() if len(targets) == 1 else None
    rounds = f"rounds to {only:.0%}" if only is not None else "rounds to target"
    return ["variant", rounds, "reached", "speed-up [95 %]", "final acc. %", "GFLOPs", "MB"]


def further_header(rows: Sequence[Row]) -> list[str]:
    """Titles of the columns for which a terminal has no room."""
    return ["GMACs", "kB kept", *(["s (estimate)"] if rows[0].device_seconds is not None else [])]


def further_note(rows: Sequence[Row]) -> str:
    """How to read these columns."""
    return (
        "GMACs: ours, all clients and the server, forward and backward. kB kept: what a client stores between its "
        "rounds." + (f" s (estimate): {FORMULA}." if rows[0].device_seconds is not None else "")
    )


def further_cells(row: Row) -> list[str]:
    """One row's cells below them."""
    bound = ">" if row.censored and row.target is not None else ""
    estimated = [] if row.device_seconds is None else [bound + _spread(row.device_seconds, 1)]
    return [bound + _spread(row.gmacs, 2), f"{row.client_megabytes * 1e3:.0f}", *estimated]


def cells(row: Row, *, costs_spread: bool = True) -> list[str]:
    """One row's cells, as shown to people; the costs with or without their deviations."""
    bound = ">" if row.censored and row.target is not None else ""
    return [
        row.variant,
        bound + _spread(row.rounds, 1) if row.target is not None else "no target",
        f"{row.trials - row.censored}/{row.trials}" if row.target is not None else "–",
        interval(row.speedup) if row.target is not None else "–",
        _spread(row.final_accuracy, 2, scale=100),
        bound + _spread(row.gflops, 3, spread=costs_spread) if row.gflops is not None else "not declared",
        bound + _spread(row.megabytes, 2, spread=costs_spread),
    ]


def as_markdown(rows: Sequence[Row], title: str) -> str:
    """A Markdown page with the table and how to read it."""
    titles = [*header(rows), *further_header(rows)]
    lines = [titles, ["---"] * len(titles), *([*cells(row), *further_cells(row)] for row in rows)]
    table = "\n".join(map(markdown_row, lines))
    return f"# {title}\n\n{table}\n\n{note(rows)} {further_note(rows)}\n"


def markdown_row(texts: Sequence[str]) -> str:
    """One line of a Markdown table; a bar within a text does not end its cell."""
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def as_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Everything, as plain JSON data."""
    return [asdict(row) for row in rows]


def as_csv(rows: Sequence[Row]) -> str:
    """Numbers only, one column each."""
    buffer = io.StringIO()
    records = [_flat(row) for row in rows]
    writer = csv.DictWriter(buffer, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def _flat(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {
        "variant": row.variant,
        "method": row.method,
        "trials": row.trials,
        "target": row.target,
        "censored": row.censored,
    }
    flat["client_megabytes"] = row.client_megabytes
    for name in ("rounds", "final_accuracy", "gflops", "megabytes", "gmacs", "device_seconds"):
        value: Estimate | None = getattr(row, name)
        flat[f"{name}_mean"] = None if value is None else value.mean
        flat[f"{name}_std"] = None if value is None else value.std
    for name in ("mean", "low", "high", "bound", "left_out"):
        flat[f"speedup_{name}"] = None if row.speedup is None else getattr(row.speedup, name)
    return flat


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
