"""`fedtrip reproduce`: the paper's tables and figures, ours beside the published ones."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markdown import Markdown
from rich.table import Table

from fedtrip.api.progress import Live, refusals
from fedtrip.cli import completion
from fedtrip.cli.console import err, out, print_json
from fedtrip.cli.options import DataDir, RayAddress, TrialEngine, absolute
from fedtrip.errors import UserError, unknown_name
from fedtrip.families import METHOD
from fedtrip.files.atomic import check_parent_writable
from fedtrip.files.lock import FolderLock
from fedtrip.interruption import Ended, Interruption, how_it_ended

if TYPE_CHECKING:
    from fedtrip.comparison.trials import Trial
    from fedtrip.paper.archive import Archive
    from fedtrip.paper.entry import Line
    from fedtrip.paper.reproduction import Plan
    from fedtrip.rounds.record import RoundRecord


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="tables and figures; --list names them, all: all",
            autocompletion=completion.entries,
        ),
    ] = None,
    as_list: Annotated[bool, typer.Option("--list", help="name what can be reproduced")] = False,
    case: Annotated[str | None, typer.Option(help="only these cases, comma-separated, e.g. cnn-mnist")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="only these methods, comma-separated; of xi also single rules, e.g. annealed",
            autocompletion=completion.several(completion.rules_of(METHOD)),
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="runs of each line, on seeds 0, 1, … (default: the paper's 10)")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="only say what is missing in each case, where it was looked for, and how long it takes"
        ),
    ] = False,
    only_finished: Annotated[
        bool, typer.Option("--only-finished", help="run no trials: write the tables from those that are there")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="table5 from the rounds that the paper prints, without any run")
    ] = False,
    data_dir: DataDir = None,
    workers: Annotated[
        int | None,
        typer.Option(help="runs at the same time; does not change results (default: the cores)", show_default=False),
    ] = None,
    engine: TrialEngine = "local",
    address: RayAddress = None,
    folder: Annotated[Path, typer.Option("--out", help="folder of the runs and of what is written from them")] = Path(
        "results"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="print the cells as JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress")] = False,
) -> None:
    """Reproduce tables and figures of the paper, each beside the published one.

    Says how many runs it takes, runs those that --out does not hold yet, and writes OUT/NAME/ (Markdown, CSV, JSON,
    PNG, SVG). Stop it at any time: the same command goes on where it was. A run that two entries need is done once.

    Examples:

      fedtrip reproduce --list

      fedtrip reproduce table4 --case mlp-mnist --trials 3

      fedtrip reproduce all --dry-run

      fedtrip reproduce table5 --published
    """
    from fedtrip.comparison.trials import check_trial_engine
    from fedtrip.engines import worker_count
    from fedtrip.paper.archive import Archive
    from fedtrip.paper.registry import ENTRIES
    from fedtrip.paper.reproduction import RUNS, plan, run_missing, select, write_entry

    if as_list or not names:
        for entry in ENTRIES.values():
            work = f"{len(entry.lines)} lines × {entry.trials} trials" if entry.lines else entry.own_work.text
            out.print(f"[bold]{entry.name:7}[/] {entry.title} [dim]({work})[/]", soft_wrap=True)
        return
    if published:
        _show_published(names, as_json)
        return
    chosen = list(ENTRIES) if names == ["all"] else names
    for name in chosen:
        if name not in ENTRIES:
            raise unknown_name("entry", name, [*ENTRIES, "all"])
    if trials is not None and trials < 1:
        raise UserError(f"--trials is {trials}; accepted: at least 1")
    worker_count(workers)
    check_trial_engine(engine, address)
    selected = [
        (entry, select(entry, _parts(case), _parts(methods)) if entry.lines else [])
        for entry in (ENTRIES[name] for name in chosen)
    ]
    where = absolute(folder) or folder
    if not dry_run:
        check_parent_writable(where, "--out")
        where.mkdir(parents=True, exist_ok=True)
    with nullcontext() if dry_run else FolderLock(where):
        archive = Archive(where / RUNS)
        for entry, lines in selected:
            planned = plan(lines, trials or entry.trials, archive)
            if lines and not only_finished:
                _tell(entry.name, planned, archive, workers)
            elif dry_run:
                err.print(f"{entry.name}: {entry.own_work.text}", markup=False, soft_wrap=True)
            if dry_run:
                _tell_what_is_missing(entry.name, lines, trials or entry.trials, archive, where, data_dir, as_json)
                continue
            if planned.missing and not only_finished:
                with _Progress(entry.name, planned, quiet) as progress, Interruption() as interruption:
                    try:
                        run_missing(
                            planned, archive, where,
                            data_dir=absolute(data_dir), workers=workers, engine=engine, address=address,
                            progress=not quiet, watcher=progress, stop=lambda: interruption.asked,
                        )  # fmt: skip
                    except Ended as reason:
                        err.print(f"{how_it_ended(reason)}; the same command goes on", markup=False)
                        raise
            with Live(entry.name, entry.own_work.steps, quiet=quiet) if entry.own_work.steps else nullcontext() as live:
                written = write_entry(entry, archive, where, absolute(data_dir), live.advance if live else None)
            _show(written, as_json)


def _show(written: Path, as_json: bool) -> None:
    if as_json:
        print((written / "table.json").read_text(encoding="utf-8"), end="")
        return
    out.print(Markdown((written / "table.md").read_text(encoding="utf-8")))
    out.print(f"\nwritten: {written}", markup=False, soft_wrap=True)


def _parts(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _tell(name: str, planned: Plan, archive: Archive, workers: int | None) -> None:
    """How much there is to do, before it is begun."""
    from fedtrip.engines import worker_count
    from fedtrip.paper.estimate import expected_seconds

    left = len(planned.missing)
    text = f"{name}: {len(planned.wanted)} runs, {len(planned.wanted) - left} of them finished"
    if left:
        at_once = min(worker_count(workers), left)
        seconds = sum(expected_seconds((experiment for _, experiment in planned.missing), archive)) / at_once
        text += f"; {left} to run, about {_duration(seconds)} with {at_once} at once"
    err.print(text, markup=False, soft_wrap=True)


def _tell_what_is_missing(
    name: str, lines: list[Line], trials: int, archive: Archive, where: Path, data_dir: Path | None, as_json: bool
) -> None:
    """Case by case, and where it was looked for."""
    from rich.filesize import decimal

    from fedtrip.paper.missing import span, state_of_cases, state_of_data
    from fedtrip.paper.reproduction import RUNS, WORK

    cases, sets = state_of_cases(lines, trials, archive, where), state_of_data(lines, absolute(data_dir))
    if as_json:
        told = [{"case": c.case, "runs": c.wanted, "missing": c.missing, "begun": c.begun} for c in cases]
        data = [{"name": s.name, "here": s.is_here, "looked_in": [*map(str, s.looked_in)]} for s in sets]
        places = {"finished": str(where / RUNS), "begun": str(where / WORK)}
        print_json({"name": name, "cases": told, "data": data, "looked_in": places})
        return
    for case in cases:
        begun = f"; {case.begun} of them begun" if case.begun else ""
        missing = "; ".join(f"{label}, seeds {span(seeds)}" for label, seeds in case.missing.items())
        said = f"{case.lacking} of {case.wanted} missing: {missing}{begun}" if missing else f"all {case.wanted} there"
        out.print(f"  {case.case}: {said}", markup=False, soft_wrap=True)
    for state in sets:
        looked = ", ".join(f"'{folder}'" for folder in state.looked_in)
        size = f"it is downloaded when needed, {decimal(state.download_bytes)}" if state.download_bytes else "bring it"
        said = f"in '{state.folder}'" if state.folder is not None else "in fedtrip"
        said = said if state.is_here else f"not here: looked in {looked}; {size}"
        out.print(f"  data set {state.name}: {said}", markup=False, soft_wrap=True)
    if cases:
        looked = f"finished runs in '{where / RUNS}' ({len(archive)} there), begun ones in '{where / WORK}'"
        out.print(f"  looked for {looked}", markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{max(1, round(seconds / 60))} minutes"


def _show_published(names: list[str], as_json: bool) -> None:
    from fedtrip.paper.tables import as_records, table5

    if names != ["table5"]:
        raise UserError(f"--published is only for table5, not {', '.join(names)}; accepted: table5 --published")
    title, cells = "Table 5: GFLOPs to target, from the rounds that Table 4 prints", table5()
    if as_json:
        print_json({"name": "table5", "title": title, "cells": as_records(cells)})
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "", "printed", "computed", ""):
        table.add_column(column, justify="right" if column else "left")
    for cell in cells:
        mark = "✓" if cell.agrees else f"[yellow]≠[/] {cell.remark}"
        table.add_row(cell.row, cell.column, cell.printed, cell.computed, mark)
    out.print(table)
    out.print(f"{sum(cell.agrees for cell in cells)} of {len(cells)} cells agree to the printed digit.")


class _Progress:
    """One bar over all rounds of all runs that are missing."""

    def __init__(self, name: str, planned: Plan, quiet: bool) -> None:
        rounds = sum(experiment.rounds for _, experiment in planned.missing)
        self._live = Live(f"{name}: {len(planned.missing)} runs", rounds, quiet=quiet)
        self._done: dict[str, int] = {}

    def round(self, trial: Trial, record: RoundRecord) -> None:
        self._done[trial.name] = self._done.get(trial.name, 0) + 1
        self._live.advance(trial.name)
        if (message := refusals(record)) is not None:
            self._live.warn(f"{trial.name}: {message}")

    def finished(self, trial: Trial) -> None:
        left = trial.rounds - self._done.get(trial.name, 0)
        if left > 0:  # it reached its target, or went on from a checkpoint
            self._live.advance(f"{trial.name} finished", steps=left)

    def __enter__(self) -> _Progress:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)
