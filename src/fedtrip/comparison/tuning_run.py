"""The work of a tuning: its plan from what the user said, its trials rung by rung, and what is compared in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from fedtrip.comparison.trials import OnTrialRound, Trial
from fedtrip.comparison.tuning import MethodPlan, Plan, Rung, TunedMethod, halved, remarks_on, tuned_methods
from fedtrip.comparison.tuning_folder import TuningFolder
from fedtrip.comparison.tuning_halving import plan_halving
from fedtrip.comparison.tuning_judge import standing
from fedtrip.comparison.tuning_space import (
    Configuration,
    Space,
    Values,
    default_values,
    draw,
    fields_of,
    space_of,
)
from fedtrip.comparison.variants import Variant
from fedtrip.experiment.defaults import changed
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation
from fedtrip.experiment.settings import with_settings
from fedtrip.methods.interface import Choices, Range
from fedtrip.rounds.record import RoundRecord
from fedtrip.runs.folder import read_records

VALIDATION = 0.2
"""Share of the training set on which configurations are judged, if the experiment has no validation set."""

Prepare = Callable[[Experiment], Federation]


class TuningWatcher(Protocol):
    """Who wants to see how far a tuning is."""

    def begin(self, plan: Plan, rounds: int) -> None:
        """Everything is checked; this will be run, so many rounds in all."""

    def round(self, trial: Trial, record: RoundRecord) -> None:
        """A trial has done a round."""

    def finished(self, trial: Trial) -> None:
        """A trial has done all that it is to do for now: `trial.rounds` rounds from its first."""


class RunTrials(Protocol):
    """`run_trials` with everything said but the trials."""

    def __call__(self, trials: Sequence[Trial], *, on_round: OnTrialRound | None) -> Iterator[Trial]: ...


def tuned_label(label: str) -> str:
    """What a method with its chosen values is called in the verdict, by what it is called with its defaults."""
    return f"{label} tuned"


def to_judge_by(experiment: Experiment) -> Experiment:
    """The experiment as it is run to judge configurations: with a validation set, and to the end of its rung.

    What would end a run by its test score, or earlier than the other configurations', is left out, and so is what
    nobody looks at.
    """
    share = experiment.validation or VALIDATION
    return changed(
        experiment,
        validation=share,
        stop_at_target=False,
        patience=None,
        eval_clients=None,
        snapshot=(),
        keep_best=False,
    )


class TuningRun:
    """One tuning of some methods; `defaults` are their variants before it, one for each method and of its name."""

    def __init__(
        self,
        defaults: Sequence[Variant],
        ranges: Mapping[str, Range | Choices],
        settings: Values,
        prepare: Prepare,
        run: RunTrials,
        watcher: TuningWatcher | None,
    ) -> None:
        self._defaults, self._prepare, self._run, self._watcher = defaults, prepare, run, watcher
        self._judged = {one.name: to_judge_by(one.experiment) for one in defaults}
        self._spaces: dict[str, Space] = {
            method: space_of(method, judged, ranges, settings) for method, judged in self._judged.items()
        }
        self._federations: dict[str, Federation] = {}

    @property
    def experiments(self) -> dict[str, str]:
        """Each method's complete experiment with its defaults, as it is judged."""
        return {method: federation.experiment.to_toml() for method, federation in self._federations.items()}

    @property
    def data_sha256(self) -> str:
        """The digest of the data, of which there is one set."""
        return next(iter(self._federations.values())).dataset.sha256()

    def planned(self, budget: int, trials: int, tuning_trials: int) -> Plan:
        """The plan; every configuration is checked, nothing is run."""
        first = next(iter(self._judged.values()))
        fresh = first.seed + tuning_trials
        first.but(seed=fresh + trials - 1)  # refused now, not when all is spent
        halving = plan_halving(budget, first.rounds, tuning_trials, first.eval_every)
        self._federations = {method: self._prepare(judged) for method, judged in self._judged.items()}
        methods = []
        for variant in self._defaults:
            self._prepare(variant.experiment)
            method, federation = variant.name, self._federations[variant.name]
            space = self._spaces[method]
            count = halving.configurations[0]
            drawn = draw(method, space, default_values(space, federation), count, first.seed)
            for one in drawn:
                self._prepare(self._experiment(method, one))
            remarks = remarks_on(federation.method, declared=bool(federation.method.ranges))
            methods.append(MethodPlan(method, space, drawn, remarks))
        known = next(iter(self._federations.values()))
        return Plan(
            budget=budget,
            halving=halving,
            seeds=tuple(range(first.seed, fresh)),
            fresh_seeds=tuple(range(fresh, fresh + trials)),
            goal=known.rules.task.goal,
            target=known.experiment.target,
            validation=first.validation,
            methods=tuple(methods),
        )

    def _experiment(self, method: str, one: Configuration) -> Experiment:
        """A configuration as it is judged."""
        judged = self._judged[method]
        return with_settings(judged, method, one.values) if one.number else judged

    def tuned(self, plan: Plan, folder: TuningFolder) -> dict[str, TunedMethod]:
        """Climb all rungs that the folder does not hold yet; what came out."""
        stored, rungs = list(folder.rungs), list[Rung]()
        for rung in halved(plan, partial(self._evaluate, plan, folder), stored):
            if len(rungs) == len(folder.rungs):
                folder.store(rung)
            else:
                self._tell_of(plan, folder, rung)
            for method, standings in (rungs[-1] if rungs else {}).items():
                for number in standings.keys() - rung[method].keys():
                    folder.forget(method, number, plan.seeds)
            rungs.append(rung)
        return tuned_methods(plan, rungs)

    def _evaluate(self, plan: Plan, folder: TuningFolder, until: int, left: Mapping[str, Sequence[int]]) -> Rung:
        """Run what is left of the configurations until a round, and judge them."""
        todo = self._trials(plan, folder, until, left)
        for trial in self._run(todo, on_round=None if self._watcher is None else self._watcher.round):
            if self._watcher is not None:
                self._watcher.finished(trial)

        def of(method: str, number: int) -> list[tuple[RoundRecord, ...]]:
            return [read_records(folder.run(method, number, seed), at_most=until) for seed in plan.seeds]

        return {
            method: {number: standing(of(method, number), until, plan.target, plan.goal) for number in numbers}
            for method, numbers in left.items()
        }

    def _trials(self, plan: Plan, folder: TuningFolder, until: int, left: Mapping[str, Sequence[int]]) -> list[Trial]:
        configurations = {one.method: one.configurations for one in plan.methods}
        return [
            Trial(
                name=f"{method} {number}, seed {seed}",
                prepare=partial(self._prepare, self._experiment(method, configurations[method][number]).but(seed=seed)),
                out=folder.run(method, number, seed),
                rounds=until,
                goal=plan.goal,
                until=until,
            )
            for seed in plan.seeds
            for method, numbers in left.items()
            for number in numbers
        ]

    def _tell_of(self, plan: Plan, folder: TuningFolder, rung: Rung) -> None:
        """A rung that was done before."""
        until = next(iter(next(iter(rung.values())).values())).until
        if self._watcher is not None:
            for trial in self._trials(plan, folder, until, {method: list(of) for method, of in rung.items()}):
                self._watcher.finished(trial)

    def compared(self, tuned: Mapping[str, TunedMethod]) -> list[Variant]:
        """The variants of the verdict: every method with its defaults, then every method with what was chosen."""
        after = []
        for variant in self._defaults:
            method, chosen = variant.name, tuned[variant.name].chosen
            experiment = with_settings(variant.experiment, method, chosen.values) if chosen.number else None
            after.append(
                Variant(
                    tuned_label(variant.label),
                    experiment or variant.experiment,
                    tuned_label(method),
                    tuned=frozenset(fields_of(self._spaces[method], method)),
                    same_as=None if chosen.number else method,
                )
            )
        return [*self._defaults, *after]
