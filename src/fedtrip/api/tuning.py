"""Tune methods and write the folder: tuning.json, tuning.md, tuning/METHOD/NUMBER/SEED/, the comparison verdict/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedtrip.api.comparisons import Comparison, compare_variants
from fedtrip.api.runs import EXPERIMENT_GIVEN, MODEL_GIVEN
from fedtrip.arguments import checked_arguments
from fedtrip.comparison.folder import writing
from fedtrip.comparison.tables import as_records, as_text
from fedtrip.comparison.trials import Stop, Trial, TrialEngine, check_trial_engine, run_trials
from fedtrip.comparison.tuning import Plan, TunedMethod
from fedtrip.comparison.tuning_folder import PAGE, TUNING, tuning_folder
from fedtrip.comparison.tuning_page import Gains, in_a_line, outcome_as_json, tuning_page
from fedtrip.comparison.tuning_run import TuningRun, TuningWatcher, tuned_label
from fedtrip.comparison.tuning_space import Values, check_tuned, of_method
from fedtrip.comparison.variants import USUAL_METHODS, Variant, make_variants, rounds_ratio
from fedtrip.engines import worker_count
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import ModelSource
from fedtrip.experiment.given_data import Data, as_dataset
from fedtrip.experiment.preparer import Preparer
from fedtrip.files.atomic import write_text
from fedtrip.methods._ranges import read_range
from fedtrip.methods.interface import Choices, Range
from fedtrip.one_thread import refuse_inside_a_run
from fedtrip.printable import one_line
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import Destination
from fedtrip.statistics import Ratio


@dataclass(frozen=True, repr=False)
class Tuning:
    """A finished tuning: what was chosen for each method, and the comparison before and after."""

    title: str
    plan: Plan
    methods: dict[str, TunedMethod]
    gains: Gains
    """each method's rounds to target with its defaults over those with the chosen values; None without a target"""
    verdict: Comparison
    """on fresh seeds: each method with its defaults, then each as `… tuned` with the chosen values"""
    out: Path

    @property
    def chosen(self) -> dict[str, Values]:
        """Method → the values that were chosen for it."""
        return {name: one.values for name, one in self.methods.items()}

    def __repr__(self) -> str:
        chosen = "; ".join(f"{name}: {in_a_line(values, name)}" for name, values in self.chosen.items())
        where = one_line(str(self.out))
        return f"<Tuning {one_line(self.title)}: {one_line(chosen)}, in {where}\n{as_text(self.verdict.rows)}>"


@checked_arguments(
    fields=lambda: Experiment.model_fields,
    leave=("data",),
    experiment=EXPERIMENT_GIVEN,
    methods="a list of names",
    model=MODEL_GIVEN,
)
def tune(
    experiment: Experiment | None = None,
    *,
    out: Path | str,
    budget: int,
    methods: Sequence[str] | None = None,
    ranges: Mapping[str, str | Range | Choices] | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int = 3,
    tuning_trials: int = 2,
    model: ModelSource | None = None,
    data: Data | None = None,
    data_dir: Path | str | None = None,
    workers: int | None = None,
    engine: TrialEngine = "local",
    address: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = False,
    watcher: TuningWatcher | None = None,
    command: str | None = None,
    stop: Stop = lambda: False,
) -> Tuning:
    """Tune every method with the same budget of rounds, then compare them before and after on fresh seeds.

    A configuration of a method is drawn from the ranges that it declares and from one of the learning rate, `ranges`
    has others in their place or beside them: `{"fedprox.mu": "0.001..1:log", "lr": Range(0.01, 1, "log")}`. `settings`
    are values that all configurations have, and that are not tuned. Successive halving: many configurations run for a
    few rounds on `tuning_trials` seeds, the best third goes on, and so on up to the experiment's rounds; a method's
    defaults are always among them. They are judged on a validation set, a fifth of the training set unless the
    experiment says another share. `budget` is how many rounds each method may spend, eliminated configurations
    included. Then each method runs with its defaults and with what was chosen on `trials` seeds that were not used
    before, without a validation set unless the experiment has one.

    The rest is as in `compare`: same seeds for all, `workers`, `engine`, `resume`, `progress`, `stop`, `command`.
    """
    refuse_inside_a_run()
    base = experiment or Experiment()
    for name, count in {"trials": trials, "tuning_trials": tuning_trials}.items():
        if count < 1:
            raise UserError(f"{name} is {count}; accepted: at least 1")
    worker_count(workers)
    check_trial_engine(engine, address)
    names = list(methods or USUAL_METHODS)
    given, fixed = _read_ranges(ranges or {}), dict(settings or {})
    defaults = make_variants(base, names, {name: [value] for name, value in fixed.items()})
    check_tuned(given, names)
    for name in names:
        both = {of_method(one, name) for one in given} & {of_method(one, name) for one in fixed}
        if both:
            raise UserError(f"--range and --set both name {sorted(both)[0]}; accepted: one of them")
    destination = Destination(Path(out), overwrite, resume)
    destination.check(TUNING, "tuning")
    prepared = Preparer(model, None if data is None else as_dataset(data, base), data_dir, progress=progress)
    run = partial(run_trials, workers=workers, stop=stop, engine=engine, address=address)
    with _shown(watcher, progress) as told:
        job = TuningRun(defaults, given, fixed, prepared, run, told)
        plan = job.planned(budget, trials, tuning_trials)
        with tuning_folder(destination, plan, job.experiments, job.data_sha256, command) as folder:
            if told is not None:
                rounds = 2 * trials * sum(variant.experiment.rounds for variant in defaults)
                told.begin(plan, plan.halving.cost * len(names) + rounds)
            tuned = job.tuned(plan, folder)
            verdict = compare_variants(
                job.compared(tuned),
                plan.fresh_seeds,
                Destination(folder.verdict, resume=True),
                prepared,
                workers=workers,
                engine=engine,
                address=address,
                watcher=None if told is None else _OfVerdict(told),
                command=folder.command,
                stop=stop,
                remarks=[_remark(plan, tuned)],
            )
            gains = _gains(defaults, verdict) if plan.target is not None else {one.name: None for one in defaults}
            folder.write(**outcome_as_json(tuned, gains, as_records(verdict.rows)))
            with writing(folder.out):
                write_text(folder.out / PAGE, tuning_page(verdict.title, plan, tuned, gains, verdict.rows))
    return Tuning(verdict.title, plan, tuned, gains, verdict, folder.out)


def _gains(defaults: Sequence[Variant], verdict: Comparison) -> dict[str, Ratio | None]:
    """Each method's rounds to target before over those after."""
    return {
        one.name: rounds_ratio(verdict.results[one.label], verdict.results[tuned_label(one.label)]) for one in defaults
    }


def _shown(watcher: TuningWatcher | None, progress: bool) -> AbstractContextManager[TuningWatcher | None]:
    """Whom the rounds are told to, for as long as they are: who asked, or a bar."""
    if watcher is not None or not progress:
        return nullcontext(watcher)
    from fedtrip.api.progress import LiveTuning

    return LiveTuning()


def _read_ranges(ranges: Mapping[str, str | Range | Choices]) -> dict[str, Range | Choices]:
    read = {}
    for name, values in ranges.items():
        try:
            read[name] = read_range(values) if isinstance(values, str) else values
        except UserError as problem:
            raise UserError(f"--range {name}: {problem}") from None
    return read


def _remark(plan: Plan, tuned: Mapping[str, TunedMethod]) -> str:
    """What the report says above its parts."""
    chosen = "; ".join(f"{name}: {in_a_line(one.values, name)}" for name, one in tuned.items())
    return (
        f"First the methods with their defaults, then with what tuning chose. Each had a budget of {plan.budget:,} "
        f"rounds on other seeds than these, and was judged on validation data. Chosen were: {chosen}. {PAGE} has all "
        "that was tried."
    )


class _OfVerdict:
    """A tuning's watcher as that of its last comparison."""

    def __init__(self, watcher: TuningWatcher) -> None:
        self._watcher = watcher

    def begin(self, variants: Sequence[Variant], trials: int) -> None:
        """It has begun already."""
        del variants, trials

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""
        self._watcher.round(trial, record)

    def finished(self, trial: Trial) -> None:
        """A trial is done."""
        self._watcher.finished(trial)
