"""Run a comparison and write its folder: runs/VARIANT/SEED/, table.md, table.csv, table.json, convergence.png,
report.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fedtrip.comparison.client_device import ClientDevice
from fedtrip.comparison.folder import MANIFEST, PLOT, REPORT, TABLE, comparison_folder, writing
from fedtrip.comparison.tables import as_csv, as_markdown, as_records
from fedtrip.comparison.trials import Stop, Trial, TrialEngine, check_trial_engine, run_trials
from fedtrip.comparison.variants import (
    USUAL_METHODS,
    Row,
    Variant,
    make_variants,
    read_results,
    run_folder,
    summarise,
)
from fedtrip.engines import worker_count
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import ModelSource
from fedtrip.experiment.given_data import Data, as_dataset
from fedtrip.experiment.preparer import Preparer
from fedtrip.figures.convergence import draw_convergence
from fedtrip.files.atomic import write_json, write_text
from fedtrip.one_thread import refuse_inside_a_run
from fedtrip.report import write_report
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import Destination
from fedtrip.runs.result import Result


class Watcher(Protocol):
    """Who wants to see how far a comparison is."""

    def begin(self, variants: Sequence[Variant], trials: int) -> None:
        """Everything is checked; this will be run."""

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""

    def finished(self, trial: Trial) -> None:
        """A trial is done."""


@dataclass(frozen=True)
class Comparison:
    """A finished comparison."""

    title: str
    rows: list[Row]
    results: dict[str, list[Result]]
    """the runs of each variant, in the order of the seeds"""
    out: Path


def compare(
    experiment: Experiment | None = None,
    *,
    out: Path | str,
    methods: Sequence[str] | None = None,
    sweeps: Mapping[str, Sequence[Any]] | None = None,
    trials: int = 3,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    workers: int | None = None,
    engine: TrialEngine = "local",
    address: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = False,
    device: ClientDevice | None = None,
    watcher: Watcher | None = None,
    command: str | None = None,
    stop: Stop = lambda: False,
) -> Comparison:
    """Run every variant on the same seeds: same partition, same initial model, same clients each round.

    `methods` are the names to compare (default: the paper's six and `fedtrip-auto`), `sweeps` maps `METHOD.option`,
    `method.option` or a field of the experiment to the values to try. Trials run side by side on `workers`
    processes (default: the cores). With the engine `ray` they run on the Ray cluster at `address` (default: a Ray
    that is started here).
    With `resume` the comparison that `out` holds goes on, if there is one: finished trials are not repeated, and the
    tables are as if it never had been interrupted. When `stop` says so, all trials end after their current round and
    `KeyboardInterrupt` is raised. With a `device` the table has the estimated seconds to target on it.
    `command` is what repeats the comparison, if it was typed; it is stored, and shown in the report.
    """
    refuse_inside_a_run()
    base, where = experiment or Experiment(), Path(out)
    if trials < 1:
        raise UserError(f"trials is {trials}; accepted: at least 1")
    worker_count(workers)
    check_trial_engine(engine, address)
    variants = make_variants(base, methods or USUAL_METHODS, sweeps or {})
    destination = Destination(where, overwrite, resume)
    destination.check(MANIFEST, "comparison")
    prepared = Preparer(model, None if data is None else as_dataset(data, base), data_dir, progress=progress)
    return compare_variants(
        variants,
        range(base.seed, base.seed + trials),
        destination,
        prepared,
        workers=workers,
        engine=engine,
        address=address,
        device=device,
        watcher=watcher,
        command=command,
        stop=stop,
    )


def compare_variants(
    variants: Sequence[Variant],
    seeds: Sequence[int],
    destination: Destination,
    prepared: Preparer,
    *,
    workers: int | None,
    engine: TrialEngine,
    address: str | None,
    stop: Stop,
    device: ClientDevice | None = None,
    watcher: Watcher | None = None,
    command: str | None = None,
    remarks: Sequence[str] = (),
) -> Comparison:
    """Run these variants on these seeds and write the comparison's folder; the report has the `remarks`."""
    where = destination.out
    federations = [prepared(variant.experiment) for variant in variants]  # all checked before anything is run
    planned = [
        (
            variant,
            Trial(
                name=f"{variant.label}, seed {seed}",
                prepare=partial(prepared, variant.experiment.but(seed=seed)),
                out=run_folder(where, variant, seed),
                rounds=variant.experiment.rounds,
                goal=federation.rules.task.goal,
            ),
        )
        for seed in seeds
        for variant, federation in zip(variants, federations, strict=True)
    ]
    todo = [trial for variant, trial in planned if variant.same_as is None]
    shared = [trial for variant, trial in planned if variant.same_as is not None]
    with comparison_folder(destination, variants, seeds, federations, command):
        if watcher is not None:
            watcher.begin(variants, len(seeds))
        told = watcher.round if watcher is not None else None
        for trial in run_trials(todo, workers=workers, on_round=told, stop=stop, engine=engine, address=address):
            if watcher is not None:
                watcher.finished(trial)
        for trial in shared:
            if watcher is not None:
                watcher.finished(trial)

        results = read_results(where, variants, seeds)
        completed = [replace(v, experiment=f.experiment) for v, f in zip(variants, federations, strict=True)]
        rows = summarise(completed, results, device)
        complete = federations[0].experiment
        title = f"{complete.dataset}, {complete.model}, {complete.partition}"
        with writing(where):
            write_text(where / TABLE, as_markdown(rows, title))
            write_text(where / "table.csv", as_csv(rows))
            write_json(where / "table.json", as_records(rows))
            draw_convergence({v.label: results[v.label] for v in variants if v.same_as is None}, where / PLOT, title)
            write_report(
                results,
                where / REPORT,
                commands=[command] if command else [],
                prepare=prepared,
                remarks=remarks,
                tuned={variant.label: variant.tuned for variant in variants if variant.tuned is not None},
            )
    return Comparison(title, rows, results, where)
