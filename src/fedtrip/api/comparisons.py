"""Run a comparison and write its folder: runs/VARIANT/SEED/, table.md, .csv, .json and .tex, convergence.png, .pdf and
.svg, report.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedtrip.api.runs import EXPERIMENT_GIVEN, MODEL_GIVEN
from fedtrip.arguments import checked_arguments
from fedtrip.comparison.baseline import BASELINE, check_baseline
from fedtrip.comparison.client_device import ClientDevice
from fedtrip.comparison.folder import LATEX, MANIFEST, PLOT, REPORT, TABLE, comparison_folder, writing
from fedtrip.comparison.labels import with_labels
from fedtrip.comparison.latex import as_latex
from fedtrip.comparison.tables import as_csv, as_markdown, as_records, as_text, flat_records
from fedtrip.comparison.trials import Stop, Trial, TrialEngine, check_trial_engine, run_trials
from fedtrip.comparison.variants import (
    USUAL_METHODS,
    AnyMethod,
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
from fedtrip.experiment.names import title_of
from fedtrip.experiment.preparer import Preparer
from fedtrip.figures.convergence import convergence
from fedtrip.figures.drawing import save_figures
from fedtrip.files.atomic import write_json, write_text
from fedtrip.one_thread import refuse_inside_a_run
from fedtrip.printable import one_line
from fedtrip.report import write_report
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import Destination, unused_folder
from fedtrip.runs.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Watcher(Protocol):
    """Who wants to see how far a comparison is."""

    def begin(self, variants: Sequence[Variant], trials: int) -> None:
        """Everything is checked; this will be run."""

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""

    def finished(self, trial: Trial) -> None:
        """A trial is done."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """A finished comparison. A notebook shows it as its table and its curves."""

    title: str
    rows: list[Row]
    results: dict[str, list[Result]]
    """the runs of each variant by its label, in the order of the seeds"""
    out: Path
    repeated: tuple[str, ...] = ()
    """variants whose runs are another's: their curves are not drawn twice"""

    def frame(self) -> pandas.DataFrame:
        """The table as a data frame, one row a variant: the columns of `table.csv`."""
        import pandas

        return pandas.DataFrame(flat_records(self.rows))

    def plot(self, title: str | None = None) -> Figure:
        """The curves of `convergence.png`, as a figure of matplotlib."""
        return convergence(self._drawn, self.title if title is None else title)

    def to_latex(self, title: str | None = None) -> str:
        """The table for a paper, as LaTeX with `booktabs`; its caption begins with the title."""
        return as_latex(self.rows, self.title if title is None else title)

    def __repr__(self) -> str:
        trials = self.rows[0].trials
        extent = f"{len(self.rows)} variants, {trials} trial{'s'[: trials != 1]} each"
        return f"<Comparison {one_line(self.title)}: {extent}, in {one_line(str(self.out))}\n{as_text(self.rows)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the table, how to read it, and the curves."""
        from fedtrip.figures.notebook import comparison_html

        return comparison_html(self.title, self.rows, self._drawn, str(self.out))

    @property
    def _drawn(self) -> dict[str, list[Result]]:
        return {label: runs for label, runs in self.results.items() if label not in self.repeated}


@checked_arguments(
    fields=lambda: Experiment.model_fields,
    leave=("data",),
    experiment=EXPERIMENT_GIVEN,
    methods="a list of names and Method objects",
    model=MODEL_GIVEN,
)
def compare(
    experiment: Experiment | None = None,
    *,
    out: Path | str | None = None,
    methods: Sequence[AnyMethod] | None = None,
    sweeps: Mapping[str, Sequence[Any]] | None = None,
    labels: Mapping[str, str] | None = None,
    baseline: str | None = None,
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

    `methods` are what is compared (default: the paper's six and `fedtrip-auto`): names, `Method` objects such as
    `MyMethod(0.05)`, or tables with a name and options. `sweeps` maps `METHOD.option`, `method.option` or a field of
    the experiment to the values to try, `labels` a variant to what it is called in tables and figures. Speed-ups are
    over the `baseline`, a method or a variant (default: FedAvg, if it is among them). The folder `out`
    (default: a new one in `runs/`) gets the runs, the tables, the plot and the report. Trials run side by side on
    `workers` processes (default: the cores). With the engine `ray` they run on the Ray cluster at `address` (default: a
    Ray that is started here).
    With `progress` the rounds are shown as they are done, on a terminal and in a notebook.
    With `resume` the comparison that `out` holds goes on, if there is one: finished trials are not repeated, and the
    tables are as if it never had been interrupted. When `stop` says so, all trials end after their current round and
    `KeyboardInterrupt` is raised. With a `device` the table has the estimated seconds to target on it.
    `command` is what repeats the comparison, if it was typed; it is stored, and shown in the report.
    """
    refuse_inside_a_run()
    base = experiment or Experiment()
    if trials < 1:
        raise UserError(f"trials is {trials}; accepted: at least 1")
    worker_count(workers)
    check_trial_engine(engine, address)
    variants = with_labels(
        make_variants(base, USUAL_METHODS if methods is None else methods, sweeps or {}), labels or {}
    )
    based = check_baseline(variants, baseline)
    where = _folder(out, base, model, data, overwrite=overwrite, resume=resume)
    destination = Destination(where, overwrite, resume)
    destination.check(MANIFEST, "comparison")
    prepared = Preparer(model, None if data is None else as_dataset(data, base), data_dir, progress=progress)
    with _shown(watcher, progress) as told:
        return compare_variants(
            variants,
            range(base.seed, base.seed + trials),
            destination,
            prepared,
            baseline=based,
            workers=workers,
            engine=engine,
            address=address,
            device=device,
            watcher=told,
            command=command,
            stop=stop,
        )


def _folder(
    out: Path | str | None,
    base: Experiment,
    model: ModelSource | None,
    data: Data | None,
    *,
    overwrite: bool,
    resume: bool,
) -> Path:
    """The folder to write; a new one in runs/ if none is named."""
    if out is not None:
        return Path(out)
    for option, asked in (("overwrite", overwrite), ("resume", resume)):
        if asked:
            raise UserError(f"{option} needs to know which comparison; accepted: out=FOLDER too")
    names = (base.model if model is None else "own-model", base.dataset if data is None else "own-data")
    return unused_folder("-".join(("compare", *names)))


def _shown(watcher: Watcher | None, progress: bool) -> AbstractContextManager[Watcher | None]:
    """Whom the rounds are told to, for as long as they are: who asked, or a bar."""
    if watcher is not None or not progress:
        return nullcontext(watcher)
    from fedtrip.api.progress import LiveComparison

    return LiveComparison()


def compare_variants(
    variants: Sequence[Variant],
    seeds: Sequence[int],
    destination: Destination,
    prepared: Preparer,
    *,
    baseline: str = BASELINE,
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
    with comparison_folder(destination, variants, seeds, federations, command, baseline):
        if watcher is not None:
            watcher.begin(variants, len(seeds))
        told = watcher.round if watcher is not None else None
        for trial in run_trials(todo, workers=workers, on_round=told, stop=stop, engine=engine, address=address):
            if watcher is not None:
                watcher.finished(trial)
        for trial in shared:
            if watcher is not None:
                watcher.finished(trial)

        results = read_results(where, variants, seeds, prepared.given)
        completed = [replace(v, experiment=f.experiment) for v, f in zip(variants, federations, strict=True)]
        rows = summarise(completed, results, device, baseline)
        repeated = tuple(variant.label for variant in variants if variant.same_as is not None)
        comparison = Comparison(title_of(federations[0].experiment), rows, results, where, repeated)
        with writing(where):
            _write(comparison)
            write_report(
                results,
                where / REPORT,
                commands=[command] if command else [],
                prepare=prepared,
                remarks=remarks,
                tuned={variant.label: variant.tuned for variant in variants if variant.tuned is not None},
                baseline=baseline,
            )
    return comparison


def _write(comparison: Comparison) -> None:
    """The tables and the plot."""
    rows, title, where = comparison.rows, comparison.title, comparison.out
    write_text(where / TABLE, as_markdown(rows, title))
    write_text(where / "table.csv", as_csv(rows))
    write_json(where / "table.json", as_records(rows))
    write_text(where / LATEX, comparison.to_latex())
    save_figures(comparison.plot(), where / PLOT)
