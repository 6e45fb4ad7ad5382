"""A comparison's rows as text: for the terminal, Markdown, CSV and JSON, all from the same cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedtrip.compare import Row
from fedtrip.statistics import Estimate, Ratio

NOTE = (
    "Rounds to target: first round with test accuracy ≥ target, mean ± standard deviation over trials; "
    "'>' marks means in which a run that never got there counts as its last round. Speed-up: fedavg's rounds over the "
    "method's, geometric mean paired by seed, 95 % interval. Final accuracy: mean of the last 10 evaluated rounds. "
    "GFLOPs: the paper's accounting, one client, forward passes and attaching operations, to target; MB: all clients, "
    "down and up, to target."
)


def header(rows: Sequence[Row]) -> list[str]:
    """Column titles."""
    targets = {row.target for row in rows}
    only = targets.pop() if len(targets) == 1 else None
    rounds = f"rounds to {only:.0%}" if only is not None else "rounds to target"
    return ["variant", rounds, "reached", "speed-up [95 %]", "final acc. %", "GFLOPs", "MB"]


def cells(row: Row) -> list[str]:
    """One row's cells, as shown to people."""
    bound = ">" if row.censored else ""
    return [
        row.variant,
        bound + _spread(row.rounds, 1) if row.target is not None else "no target",
        f"{row.trials - row.censored}/{row.trials}",
        _ratio(row.speedup) if row.target is not None else "–",
        _spread(row.final_accuracy, 2, scale=100),
        bound + _spread(row.gflops, 3) if row.gflops is not None else "not declared",
        bound + _spread(row.megabytes, 2),
    ]


def as_markdown(rows: Sequence[Row], title: str) -> str:
    """A Markdown page with the table and how to read it."""
    lines = [header(rows), ["---"] * len(header(rows)), *(cells(row) for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"# {title}\n\n{table}\n\n{NOTE}\n"


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
    for name in ("rounds", "final_accuracy", "gflops", "megabytes", "gmacs"):
        value: Estimate | None = getattr(row, name)
        flat[f"{name}_mean"] = None if value is None else value.mean
        flat[f"{name}_std"] = None if value is None else value.std
    for name in ("mean", "low", "high", "bound"):
        flat[f"speedup_{name}"] = None if row.speedup is None else getattr(row.speedup, name)
    return flat


def _spread(value: Estimate, digits: int, scale: float = 1.0) -> str:
    mean = f"{value.mean * scale:.{digits}f}"
    return mean if value.std is None else f"{mean}±{value.std * scale:.{digits}f}"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    mean = f"{ratio.bound}{ratio.mean:.2f}×"
    return mean if ratio.low is None or ratio.high is None else f"{mean} [{ratio.low:.2f}, {ratio.high:.2f}]"
