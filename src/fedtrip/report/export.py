"""One table or figure of stored runs, for a paper or for another program."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from matplotlib.figure import Figure

from fedtrip.comparison.baseline import BASELINE
from fedtrip.comparison.latex import as_latex
from fedtrip.comparison.tables import as_csv, as_markdown, as_records
from fedtrip.comparison.variants import Row, Variant, summarise
from fedtrip.errors import UserError
from fedtrip.experiment.names import title_of
from fedtrip.figures.boxes import boxes
from fedtrip.figures.convergence import convergence
from fedtrip.runs.history import History

What = Literal["table", "curves", "boxes"]
Format = Literal["tex", "csv", "md", "json", "pdf", "svg", "png"]
DRAWN: tuple[Format, ...] = ("pdf", "svg", "png")
FORMATS: dict[What, tuple[Format, ...]] = {
    "table": ("tex", "csv", "md", "json"),
    "curves": (*DRAWN, "csv"),
    "boxes": (*DRAWN, "csv"),
}
"""What there is of each, the default first."""
Histories = Mapping[str, Sequence[History]]


def check_format(what: What, chosen: Format) -> None:
    """Refuse what there is not."""
    if chosen not in FORMATS[what]:
        raise UserError(f"--format is {chosen}, for --what {what}; accepted: {', '.join(FORMATS[what])}")


def exported(
    variants: Sequence[Variant], histories: Histories, what: What, chosen: Format, baseline: str = BASELINE
) -> str | Figure:
    """A table or the numbers behind a figure as a text, or the figure."""
    check_format(what, chosen)
    goals = {run.goal for runs in histories.values() for run in runs}
    if len(goals) > 1:
        named = ", ".join(sorted(goal.score for goal in goals))
        raise UserError(f"the runs have different goals, {named}; accepted: runs of one goal")
    title = "; ".join(dict.fromkeys(title_of(runs[0].experiment) for runs in histories.values()))
    if what == "table":
        return _table(summarise(variants, histories, baseline=baseline), title, chosen)
    if chosen in DRAWN:
        return convergence(histories, title) if what == "curves" else boxes(histories, title)
    return _csv(_curves(histories) if what == "curves" else _trials(histories))


def _table(rows: Sequence[Row], title: str, chosen: Format) -> str:
    if chosen == "json":
        return json.dumps(as_records(rows), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if chosen == "csv":
        return as_csv(rows)
    return as_latex(rows, title) if chosen == "tex" else as_markdown(rows, title)


def _curves(histories: Histories) -> Iterable[dict[str, Any]]:
    """One line for each evaluated round of each run."""
    for label, runs in histories.items():
        for run in runs:
            for number, score in run.curve:
                cost = run.costs(number)
                yield {
                    "variant": label, "seed": run.experiment.seed, "round": number, run.goal.score: score,
                    "megabytes": cost["megabytes"], "gflops": cost["gflops"],
                }  # fmt: skip


def _trials(histories: Histories) -> Iterable[dict[str, Any]]:
    """One line for each run."""
    for label, runs in histories.items():
        for run in runs:
            target = run.experiment.target
            reached = None if target is None else run.rounds_to(target)
            yield {
                "variant": label, "seed": run.experiment.seed, "target": target, "reached": reached is not None,
                "rounds": reached if reached is not None or target is None else run.experiment.rounds,
                f"final_{run.goal.score}": run.final_score,
            }  # fmt: skip


def _csv(lines: Iterable[dict[str, Any]]) -> str:
    records = list(lines)
    if not records:
        raise UserError("the runs have no evaluated round; accepted: runs with one at least")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()
