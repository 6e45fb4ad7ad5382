"""Run a comparison and write its folder: runs/VARIANT/SEED/, table.md, table.csv, table.json, convergence.png."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fedtrip.api import Data, as_dataset
from fedtrip.checkpoint import Checkpoint
from fedtrip.convergence_plot import draw_convergence
from fedtrip.data.dataset import DataSet
from fedtrip.device import Device
from fedtrip.engines import worker_count
from fedtrip.errors import UserError
from fedtrip.experiment import Experiment
from fedtrip.federation import Federation, ModelSource, prepare
from fedtrip.files import write_json, write_text
from fedtrip.result import Result
from fedtrip.rounds import RoundRecord
from fedtrip.runs import CHECKPOINT, EXPERIMENT, check_folder, remove_run
from fedtrip.tables import as_csv, as_markdown, as_records
from fedtrip.trials import Trial, TrialEngine, check_trial_engine, run_trials
from fedtrip.variants import Row, Variant, default_methods, make_variants, read_results, run_folder, summarise

MANIFEST = "comparison.json"
TABLE, PLOT = "table.md", "convergence.png"


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
    progress: bool = False,
    device: Device | None = None,
    watcher: Watcher | None = None,
) -> Comparison:
    """Run every variant on the same seeds: same partition, same initial model, same clients each round.

    `methods` are the names to compare (default: the paper's six), `sweeps` maps `METHOD.option`, `method.option` or a
    field of the experiment to the values to try. Trials run side by side on `workers` processes (default: the cores).
    With the engine `ray` they run on the Ray cluster at `address` (default: a Ray that is started here).
    With a `device` the table has the estimated seconds to target on it.
    """
    base, where = experiment or Experiment(), Path(out)
    if trials < 1:
        raise UserError(f"trials is {trials}; accepted: at least 1")
    worker_count(workers)
    check_trial_engine(engine, address)
    variants = make_variants(base, methods or default_methods(), sweeps or {})
    seeds = range(base.seed, base.seed + trials)
    check_folder(where, MANIFEST, "comparison", overwrite)
    prepared = _preparer(model, None if data is None else as_dataset(data), data_dir, progress)
    complete = [prepared(variant.experiment).experiment for variant in variants]  # all checked before anything is run

    try:
        _remove_runs(where)
        where.mkdir(parents=True, exist_ok=True)
        write_json(where / MANIFEST, {"variants": {v.label: v.folder for v in variants}, "seeds": list(seeds)})
    except OSError as problem:
        raise UserError(f"--out '{where}' cannot be written: {problem.strerror or problem}") from None
    todo = [
        Trial(
            name=f"{variant.label}, seed {seed}",
            prepare=partial(prepared, variant.experiment.but(seed=seed)),
            out=run_folder(where, variant, seed),
            rounds=variant.experiment.rounds,
        )
        for seed in seeds
        for variant in variants
    ]
    if watcher is not None:
        watcher.begin(variants, trials)
    told = watcher.round if watcher is not None else None
    for trial in run_trials(todo, workers=workers, on_round=told, engine=engine, address=address):
        if watcher is not None:
            watcher.finished(trial)

    results = read_results(where, variants, seeds)
    rows = summarise(variants, results, device)
    title = f"{complete[0].dataset}, {complete[0].model}, {complete[0].partition}"
    write_text(where / TABLE, as_markdown(rows, title))
    write_text(where / "table.csv", as_csv(rows))
    write_json(where / "table.json", as_records(rows))
    draw_convergence(results, where / PLOT, title)
    return Comparison(title, rows, results, where)


def _remove_runs(out: Path) -> None:
    """Remove what an earlier comparison wrote there, and nothing else."""
    for name in (TABLE, "table.csv", "table.json", PLOT):
        (out / name).unlink(missing_ok=True)
    variants = sorted((out / "runs").glob("*/")) if (out / MANIFEST).exists() else []
    for run in (run for variant in variants for run in sorted(variant.glob("*/"))):
        if (run / EXPERIMENT).is_file():
            Checkpoint(run / CHECKPOINT).remove()
            remove_run(run)
        with suppress(OSError):  # it holds something else
            run.rmdir()
    for emptied in (*variants, out / "runs"):
        with suppress(OSError):
            emptied.rmdir()


def _preparer(
    model: ModelSource | None, data: DataSet | None, data_dir: Path | str | None, progress: bool
) -> Callable[[Experiment], Federation]:
    """`prepare` that loads each data set once, whatever the number of variants and trials."""
    loaded: dict[tuple[object, ...], DataSet] = {}

    def prepared(experiment: Experiment) -> Federation:
        key = (experiment.dataset, experiment.mean, experiment.std)
        federation = prepare(
            experiment,
            model=model,
            data=data,
            data_dir=None if data_dir is None else Path(data_dir),
            progress=progress,
            loaded=loaded.get(key),
        )
        loaded[key] = federation.dataset
        return federation

    return prepared
