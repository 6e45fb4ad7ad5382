"""The page itself: one HTML file with its script, its style and Plotly inside, and no request to anywhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedtrip._version import __version__
from fedtrip.comparison.baseline import BASELINE
from fedtrip.comparison.tables import columns, note
from fedtrip.errors import UserError
from fedtrip.experiment.preparer import Preparer
from fedtrip.files.atomic import write_text
from fedtrip.report.charts import MOST_CLASSES, chart_data
from fedtrip.report.clients import MOST_CLIENTS, ClientView, NoClasses, Prepare, look_at_clients
from fedtrip.report.inlined import asset, packed_plotly, policy, script, template
from fedtrip.report.parts import Part, make_parts
from fedtrip.report.settings import own_settings, shared_settings
from fedtrip.report.words import Words, in_words, mean_worst
from fedtrip.runs.history import History
from fedtrip.runs.result import versions as versions_here


@dataclass(frozen=True)
class Cell:
    """A cell of a sortable table: what is shown, and what it is sorted by."""

    text: str
    value: float | str


@dataclass(frozen=True)
class _Section:
    """A part as the template wants it."""

    title: str
    words: Words
    score: str
    header: list[str]
    table: list[list[Cell]]
    clients: ClientView | None
    without_clients: str
    """why nothing is said about the clients"""
    client_table: list[list[Cell]]
    client_remarks: list[str]
    confused: dict[str, int]
    """variant → seed of the run whose confusion matrix is shown"""
    confusion_remark: str
    shared: dict[str, str]
    own: dict[str, dict[str, str]]
    with_bands: bool
    with_target: bool
    with_missed: bool
    with_shorter: bool
    note: str


def write_report(
    histories: Mapping[str, Sequence[History]],
    path: Path | str,
    *,
    title: str | None = None,
    commands: Sequence[str] = (),
    versions: Sequence[Mapping[str, str]] | None = None,
    remarks: Sequence[str] = (),
    prepare: Prepare | None = None,
    baseline: str = BASELINE,
    tuned: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Write one self-contained page about the runs of some variants, each in the order of its seeds.

    `histories` maps a variant's label to its runs. Runs that are a `Result` have their model, and the page says how it
    serves each client; a plain `History` does without. `commands` are what repeats the runs, `versions` what they were
    made with (default: what is installed here). `prepare` finds the data of an experiment; by default only those that
    are on this machine, nothing is downloaded and no code is run that the runs name. Speed-ups are over the
    `baseline`, a method or a label. `tuned` names the fields of those variants that were tuned; they have a part of
    their own.
    """
    if not any(histories.values()):
        raise UserError("a report needs at least one finished run")
    parts = make_parts(histories, tuned, baseline)
    sections, data = [], []
    for part in parts:
        clients, why = _clients(part, prepare or Preparer(download=False, own_code=False))
        sections.append(_section(part, clients, why))
        data.append(chart_data(part, clients))
    code = script("report.js")
    page = template("report.html.j2").render(
        policy=policy(code),
        title=title or "; ".join(part.title for part in parts),
        extent=_extent(histories),
        sections=sections,
        data=data,
        commands=commands,
        versions=[versions_here()] if versions is None else versions,
        remarks=remarks,
        fedtrip_version=__version__,
        style=asset("report.css"),
        script=code,
        plotly=packed_plotly(),
    )
    write_text(Path(path), page)


def _extent(histories: Mapping[str, Sequence[History]]) -> str:
    """How much was run."""
    runs = sum(len(trials) for trials in histories.values())
    return f"{len(histories)} variant{'s'[: len(histories) > 1]}, {runs} run{'s'[: runs > 1]}"


def _clients(part: Part, prepare: Prepare) -> tuple[ClientView | None, str]:
    """The clients of a part, or why nothing can be said about them."""
    try:
        return look_at_clients(part.histories, prepare), ""
    except UserError as problem:
        return None, f"because their data are not at hand: {problem}"
    except NoClasses:
        return None, "because it is told by class, and this task has no classes"


def _section(part: Part, clients: ClientView | None, why: str) -> _Section:
    shown = columns(part.rows)
    return _Section(
        title=part.title,
        words=in_words(part, clients),
        score=part.goal.score,
        header=[column.title for column in shown],
        table=[[Cell(column.cell(row).replace("±", " ± "), column.sort(row)) for column in shown] for row in part.rows],
        clients=clients,
        without_clients=why,
        client_table=_client_table(clients),
        client_remarks=_client_remarks(part, clients),
        confused={} if clients is None else {label: seed for label, (seed, _) in clients.confusion.items()},
        confusion_remark=_confusion_remark(clients),
        shared=shared_settings(part),
        own=own_settings(part),
        with_bands=any(len(runs) > 1 for runs in part.histories.values()),
        with_target=any(row.target is not None for row in part.rows),
        with_missed=any(row.censored for row in part.rows),
        with_shorter=len({len(run.records) for runs in part.histories.values() for run in runs}) > 1,
        note=note(part.rows, shown),
    )


def _client_table(clients: ClientView | None) -> list[list[Cell]]:
    """Variant, mean over the clients, worst client, best client, deviation between clients; means over the trials."""
    table = []
    for label, of_seed in (clients.accuracy if clients is not None else {}).items():
        accuracies = list(of_seed.values())
        numbers = [
            float(np.mean([np.nanmean(one) for one in accuracies])),
            mean_worst(accuracies),
            float(np.mean([np.nanmax(one) for one in accuracies])),
            float(np.mean([np.nanstd(one) for one in accuracies])),
        ]
        table.append([Cell(label, label), *(Cell(f"{number:.2%}", number) for number in numbers)])
    return table


def _client_remarks(part: Part, clients: ClientView | None) -> list[str]:
    if clients is None:
        return []
    remarks = []
    if clients.clients > MOST_CLIENTS:
        remarks.append(f"The first {MOST_CLIENTS} of {clients.clients:,} clients.")
    without = [label for label in part.histories if label not in clients.accuracy]
    if without:
        what = "their models" if clients.accuracy else "the models of these runs"
        remarks.append(f"Accuracy by client needs the final models; {what} are not kept ({', '.join(without)}).")
    elif clients.seeds_scored < max(len(runs) for runs in part.histories.values()):
        remarks.append(
            f"Of each variant the first {clients.seeds_scored} trials, because testing these models is slow."
        )
    return remarks


def _confusion_remark(clients: ClientView | None) -> str:
    classes = max((len(matrix) for _, matrix in clients.confusion.values()), default=0) if clients is not None else 0
    return f"The first {MOST_CLASSES} of {classes} classes." if classes > MOST_CLASSES else ""
