"""A comparison: variants of one experiment on the same seeds, and the table one reads off it.

Not called `compare`, because a module of that name would hide the function `fedtrip.compare`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedtrip.comparison.alike import Alike, with_alike
from fedtrip.comparison.baseline import BASELINE, baselines_of, variant_settings
from fedtrip.comparison.client_device import ClientDevice
from fedtrip.comparison.marks import Mark, with_marks
from fedtrip.errors import UserError
from fedtrip.experiment.defaults import chosen_options
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.names import shown_method
from fedtrip.experiment.settings import check_setting, concerns, with_settings
from fedtrip.families import METHOD
from fedtrip.files.atomic import file_name
from fedtrip.methods.interface import Method, own_label
from fedtrip.runs.history import History
from fedtrip.runs.result import Result
from fedtrip.runs.stored import load_result
from fedtrip.statistics import Estimate, Ratio, estimate, paired_ratio
from fedtrip.tasks.interface import Goal

WHOSE, OF_CLIENTS = ("global", "personal"), ("mean", "worst_tenth", "unseen")
"""Whose models serve the clients, and what is told of it."""
PAPER_METHODS = ("fedtrip", "fedavg", "fedprox", "slowmo", "moon", "feddyn")
"""The methods of the paper's tables, in their order."""
USUAL_METHODS = ("fedtrip", "fedtrip-auto", *PAPER_METHODS[1:])
"""What is compared if nothing is said: the paper's methods, and our rules for FedTrip."""
SWEPT = sorted(Experiment.model_fields.keys() - {"schema_version", "method", "seed"})
"""The experiment's fields that may be swept: methods are named on their own, and the seeds are those of the trials."""


@dataclass(frozen=True)
class Variant:
    """One line of the comparison."""

    label: str
    """what it is called where people read it"""
    experiment: Experiment
    name: str = ""
    """what it is: the method's whole name, and what sets it apart; by default the label"""
    tuned: frozenset[str] | None = None
    """fields of the experiment whose values were chosen for this variant: they are part of its method then; None if it
    was not tuned"""
    same_as: str | None = None
    """the variant whose runs are also its own, if there is one"""

    @property
    def folder(self) -> str:
        """A name for its runs."""
        return file_name(self.same_as or self.name or self.label, also="=")


AnyMethod = str | Method | Mapping[str, Any]
"""A method as one compares it: its name, an object, or a table with its name and options."""


def make_variants(base: Experiment, methods: Sequence[AnyMethod], sweeps: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """Every method with every combination of the swept values that concern it.

    A sweep's name is `METHOD.option`, `method.option` (for every method in the comparison), `FAMILY.option` of
    another rule, or a field of the experiment. A class of the user's own may go without its module there.
    """
    if not methods:
        raise UserError("methods is empty; accepted: at least one method")
    choices = [METHOD.read(method) for method in methods]
    for number, choice in enumerate(choices):
        if choice in choices[:number]:
            raise UserError(f"methods names '{choice}' more than once; accepted: each method once")
    names = list(dict.fromkeys(choice.name for choice in choices))
    swept = {_whole_name(name, names): _values(name, values) for name, values in sweeps.items()}
    for name in swept:
        check_setting(name, names, SWEPT, compared=True)
    made = []
    for choice, given in zip(choices, methods, strict=True):
        own = {name: values for name, values in swept.items() if concerns(name, choice.name)}
        for combination in itertools.product(*own.values()):
            chosen = dict(zip(own, combination, strict=True))
            told = {_shown(name, choice.name): value for name, value in chosen.items() if len(own[name]) > 1}
            options = None if isinstance(given, str) else choice.options
            experiment = with_settings(base, choice.name, chosen, options)
            made.append(_variant(experiment, told, own_options=options is not None))
    for earlier, later in itertools.combinations(made, 2):
        if earlier.folder == later.folder:
            raise UserError(f"--set makes two variants '{later.name}'; accepted: each value once")
    return _with_whole_names(made)


def _values(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise UserError(f"sweeps: '{name}' is {values!r}; accepted: a list of the values to try")
    if not values:
        raise UserError(f"sweeps: '{name}' has no values; accepted: at least one")
    return values


def _whole_name(setting: str, methods: Sequence[str]) -> str:
    """A setting of a class of the user's own, that may be named without its module, by its whole name."""
    owner, dot, option = setting.rpartition(".")
    meant = [name for name in methods if ":" in name and shown_method(name) == owner]
    return f"{meant[0]}{dot}{option}" if len(meant) == 1 else setting


def _variant(experiment: Experiment, swept: Mapping[str, Any], *, own_options: bool) -> Variant:
    """A variant by its method, and what sets it apart from the method as it is: what was chosen, and what is swept.

    `own_options`: the method came with options of its own, by which alone it may differ from another.
    """
    method = experiment.method.name
    chosen = {name: value for name, value in chosen_options(experiment).items() if name not in swept}

    def written(name: str, options: Mapping[str, Any]) -> str:
        return " ".join([name, *(f"{option}={value}" for option, value in options.items())])

    given = own_label(METHOD.find(method))
    shown = written(shown_method(method), {**chosen, **swept}) if given is None else written(given, swept)
    return Variant(shown, experiment, written(method, {**(chosen if own_options else {}), **swept}))


def _with_whole_names(variants: Sequence[Variant]) -> list[Variant]:
    """The variants; where two would be called the same, each by its whole name."""
    labels = [variant.label for variant in variants]
    return [replace(v, label=v.name) if labels.count(v.label) > 1 else v for v in variants]


def _shown(name: str, method: str) -> str:
    """How a swept name is written behind its method."""
    owner, _, option = name.rpartition(".")
    return option if owner in ("method", method) else name


@dataclass(frozen=True)
class Row:
    """What the trials of one variant say."""

    variant: str
    method: str
    trials: int
    target: float | None
    rounds: Estimate
    """rounds to target; a run that never got there counts as its last planned round, and the mean is a lower bound"""
    censored: int
    """trials that never reached the target"""
    speedup: Ratio | None
    """over the baseline with the same settings, paired by seed; None without one, for the baseline itself, and where
    neither reached the target on any seed"""
    goal: Goal
    """the score that the target is about"""
    final_score: Estimate | None
    """None where a run has none, because its errors were never finite; an accuracy is 0 then"""
    gflops: Estimate | None
    megabytes: Estimate
    gmacs: Estimate
    """ours: multiply-adds of all clients and the server, forward and backward, to target"""
    client_megabytes: float
    """what a client keeps between its rounds, at most"""
    device_seconds: Estimate | None
    """an estimate for the device that was described, to target; see `fedtrip.comparison.client_device`"""
    client_scores: Mapping[str, Mapping[str, Estimate | None]] = field(default_factory=dict)
    """how the final `global` (and `personal`) models serve the clients, where they were asked: mean, worst_tenth and
    unseen of the goal's score"""
    baseline: str = BASELINE
    """what the speed-up is over, as people read it"""
    speedup_p: float | None = None
    """the speed-up's p-value after Holm's correction for all speed-ups of the table"""
    rounds_mark: Mark = ""
    """whether it needs the fewest rounds, or is not told apart from the one that does"""
    score_mark: Mark = ""
    """the same of the final score"""
    alike: Alike = ""
    """in what it came out like another variant"""
    like: str | None = None
    """that variant, as people read it"""


def summarise(
    variants: Sequence[Variant],
    results: Mapping[str, Sequence[History]],
    device: ClientDevice | None = None,
    baseline: str = BASELINE,
) -> list[Row]:
    """One row a variant with its complete experiment; `results` holds its runs in the order of the seeds."""
    settings, based = variant_settings(variants), baselines_of(variants, baseline)
    called = based[0] if len(based) == 1 else shown_method(baseline)
    rows = []
    for variant in variants:
        runs = results[variant.label]
        target = runs[0].experiment.target
        rounds, censored = rounds_to_target(runs)
        baselines = [
            results[other]
            for other in based
            if settings[other] == settings[variant.label] and same_seeds(results[other], runs)
        ]
        with_baseline = baselines and variant.label not in based
        needed = [_reached(run) or len(run.records) for run in runs]
        spent = [run.costs(n) for run, n in zip(runs, needed, strict=True)]
        gflops = [cost["gflops"] for cost in spent if cost["gflops"] is not None]
        rows.append(
            Row(
                variant=variant.label,
                method=variant.experiment.method.name,
                trials=len(runs),
                target=target,
                rounds=estimate(rounds),
                censored=sum(censored),
                speedup=rounds_ratio(baselines[0], runs) if with_baseline else None,
                goal=runs[0].goal,
                final_score=_final_score(runs),
                gflops=estimate(gflops) if len(gflops) == len(runs) else None,
                megabytes=estimate([cost["megabytes"] or 0.0 for cost in spent]),
                gmacs=estimate([cost["gmacs"] or 0.0 for cost in spent]),
                client_megabytes=max(run.client_megabytes for run in runs),
                device_seconds=None
                if device is None
                else estimate([device.seconds(run.records[:n]) for run, n in zip(runs, needed, strict=True)]),
                client_scores=_client_scores(runs),
                baseline=called,
            )
        )
    seeds = {label: tuple(run.experiment.seed for run in runs) for label, runs in results.items()}
    group_of = {row.variant: (settings[row.variant], seeds[row.variant]) for row in rows}
    return with_alike(with_marks(rows, group_of), results, group_of)


def rounds_to_target(runs: Sequence[History]) -> tuple[list[float], list[bool]]:
    """Each run's rounds to its target, and whether it never got there: then it counts as its last planned round."""
    reached = [_reached(run) for run in runs]
    rounds = [float(r if r is not None else run.experiment.rounds) for r, run in zip(reached, runs, strict=True)]
    return rounds, [r is None for r in reached]


def _reached(run: History) -> int | None:
    return None if run.experiment.target is None else run.rounds_to(run.experiment.target)


def _final_score(runs: Sequence[History]) -> Estimate | None:
    """The runs' final scores; one without any counts as 0 where that is the worst there is."""
    worst = 0.0 if runs[0].goal.is_share and runs[0].goal.higher_is_better else None
    scores = [worst if run.final_score is None else run.final_score for run in runs]
    found = [score for score in scores if score is not None]
    return estimate(found) if len(found) == len(runs) else None


def _client_scores(runs: Sequence[History]) -> dict[str, dict[str, Estimate | None]]:
    """How the runs' last models serve the clients; None where a run has no such number."""

    def estimated(whose: str, name: str) -> Estimate | None:
        found = [score for run in runs if (score := run.client_scores.get(whose, {}).get(name)) is not None]
        return estimate(found) if len(found) == len(runs) else None

    whose = [who for who in WHOSE if all(who in run.client_scores for run in runs)]
    return {who: {name: estimated(who, name) for name in OF_CLIENTS} for who in whose}


def same_seeds(one: Sequence[History], other: Sequence[History]) -> bool:
    """Whether the runs can be paired in their order."""
    return [run.experiment.seed for run in one] == [run.experiment.seed for run in other]


def rounds_ratio(before: Sequence[History], after: Sequence[History]) -> Ratio | None:
    """The first runs' rounds to target over the second's, paired in the order given; None if there is none."""
    base_rounds, base_censored = rounds_to_target(before)
    rounds, censored = rounds_to_target(after)
    return paired_ratio(base_rounds, rounds, base_censored, censored)


def run_folder(out: Path, variant: Variant, seed: int) -> Path:
    """Where a trial's run lies."""
    return out / "runs" / variant.folder / str(seed)


def read_results(
    out: Path, variants: Sequence[Variant], seeds: Sequence[int], given: Mapping[str, Any] | None = None
) -> dict[str, list[Result]]:
    """All finished runs of a comparison that was just run; whoever ran it named the code, or gave what it ran on."""
    return {
        variant.label: [load_result(run_folder(out, variant, seed), trust=True, **(given or {})) for seed in seeds]
        for variant in variants
    }
