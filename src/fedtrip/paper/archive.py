"""Finished runs without their models, one line each: small enough to keep in a repository, found by their experiment.

`FOLDER/DATASET-MODEL-PARTITION-KofN/METHOD-DIGEST.jsonl` holds the trials of one setting, in the order of their seeds.
A line has the complete experiment and the rounds as columns; a column whose values are all equal is written once.
The runs are classifications, as all of the paper's are: the scores are the columns `accuracy` and `loss`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from fedtrip.data import load_dataset
from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.errors import UserError
from fedtrip.experiment.defaults import default_target
from fedtrip.experiment.description import Experiment, of_this_version
from fedtrip.experiment.own_code import own_code
from fedtrip.experiment.rules import make_rules
from fedtrip.files.atomic import write_text
from fedtrip.registry import Choice
from fedtrip.rounds.record import RoundRecord, record_from_json
from fedtrip.runs.history import History
from fedtrip.runs.result import Result
from fedtrip.tasks.interface import ACCURACY

PACKAGE = __name__.partition(".")[0]
EACH = "each"
"""The key of a column that has one value for all rounds."""
SCORES = ("accuracy", "loss")
"""The columns that are a record's scores; both are null in a round that was not evaluated."""


@dataclass(frozen=True)
class Archived(History):
    """A run as it is kept: what it was run with, and the digest of the model it ended with."""

    model_sha256: str
    versions: dict[str, str]


class Archive:
    """The finished runs below a folder, all of known data sets and models. One process writes at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, Archived] = {}
        self._file_of: dict[str, Path] = {}
        """the file of each setting, whatever the seed"""
        for path in sorted(folder.glob("*/*.jsonl")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    run = _from_json(json.loads(line))
                    if code := _foreign_code(run.experiment):
                        raise UserError(f"it names code, {', '.join(code)}")
                    setting = _setting(run.experiment)
                    self._runs[_with_seed(setting, run.experiment)] = run
                    self._file_of[setting] = path
                except (ValueError, TypeError, KeyError, AttributeError, UserError) as problem:
                    raise UserError(f"'{path}' is damaged at line {number}: {problem}") from None

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Archived]:
        return iter(self._runs.values())

    def find(self, experiment: Experiment) -> Archived | None:
        """The finished run of this experiment, with its target; defaults need not be written out."""
        run = self._runs.get(identity(experiment))
        return None if run is None else replace(run, experiment=run.experiment.but(target=_target(experiment)))

    def add(self, result: Result) -> None:
        """Keep a finished run. Its file is replaced in one step, so a reader never sees half a line."""
        assert result.goal == ACCURACY, "the record is of classifications"
        run = Archived(
            experiment=result.experiment,
            goal=result.goal,
            records=result.records,
            ended=result.ended,
            gflops_per_round=result.gflops_per_round,
            acceleration=result.acceleration,
            kernels=result.kernels,
            model_sha256=result.model_sha256,
            versions=result.summary()["versions"],
        )
        setting = _setting(run.experiment)
        path = self._file_of.setdefault(setting, self._folder / _name(run.experiment, setting))
        self._runs[identity(run.experiment)] = run
        of_file = [other for other in self if self._file_of[_setting(other.experiment)] == path]
        of_file.sort(key=lambda other: other.experiment.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(_line(other) for other in of_file))


def _foreign_code(experiment: Experiment) -> list[str]:
    """The code that a line names, but for the rules of our study, which are named like anybody's own."""
    ours = experiment.method.name.startswith(f"{PACKAGE}.")
    return own_code(experiment.but(method="fedavg") if ours else experiment)


def identity(experiment: Experiment) -> str:
    """A text that is equal for experiments that give the same rounds, with or without their defaults written out."""
    return _with_seed(_setting(experiment), experiment)


def _with_seed(setting: str, experiment: Experiment) -> str:
    return f"{setting}, seed {experiment.seed}"


def _setting(experiment: Experiment) -> str:
    """The identity without the seed."""
    return _setting_of_first(experiment if experiment.seed == 0 else experiment.but(seed=0))


@lru_cache(maxsize=4096)  # it is asked for again and again: for each seed of each line
def _setting_of_first(experiment: Experiment) -> str:
    """Every field that changes a round, each rule written out, as JSON.

    Fields that are at the experiment's own default are left out, so that one added later changes nothing; so are those
    that change no round: the snapshots, and the target of a run that does not stop there. What computed it is no part
    of a setting either: it changes the rounding, as another kind of CPU does.
    """
    known = KNOWN_SETS.get(experiment.dataset)
    rules = make_rules(experiment)
    clients = experiment.clients or 10
    complete = experiment.but(
        partition=experiment.partition or "dirichlet:0.5",
        clients=clients,
        per_round=experiment.per_round or min(4, clients),
        momentum=rules.momentum,
        target=_target(experiment) if experiment.stop_at_target else None,
        snapshot=(),
        samples_per_client=experiment.samples_per_client or (known.samples_per_client if known is not None else None),
    )
    choices, usual = rules.choices(), _usual_choices()
    kept = complete.model_dump(mode="json", exclude_defaults=True, exclude={*choices, "compute"})
    if known is not None and experiment.mean is None:
        kept |= _normalisation(experiment.dataset)
    named = {name: choice.as_toml() for name, choice in choices.items() if name == "method" or choice != usual[name]}
    return json.dumps({**kept, **named}, sort_keys=True)


@cache
def _usual_choices() -> dict[str, Choice]:
    """The rules of an experiment that names none, written out."""
    return make_rules(Experiment()).choices()


@cache
def _normalisation(dataset: str) -> dict[str, list[float]]:
    """Mean and deviation of a known data set, from the catalogue or, where they are computed, from the data."""
    known = KNOWN_SETS[dataset]
    source = known if known.mean is not None else load_dataset(dataset)
    return {"mean": list(source.mean or ()), "std": list(source.std or ())}


def _target(experiment: Experiment) -> float | None:
    return experiment.target or default_target(experiment.dataset, experiment.model)


def _name(experiment: Experiment, setting: str) -> Path:
    digest = hashlib.sha256(setting.encode()).hexdigest()[:8]
    partition = (experiment.partition or "").replace(":", "-")
    case = f"{experiment.dataset}-{experiment.model}-{partition}-{experiment.per_round}of{experiment.clients}"
    method = experiment.method.name.rpartition(":")[2]  # of a class its name alone
    return Path(_for_a_file(case)) / f"{_for_a_file(method)}-{digest}.jsonl"


def _for_a_file(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)


def _line(run: Archived) -> str:
    return json.dumps(_to_json(run), allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"


def _to_json(run: Archived) -> dict[str, Any]:
    return {
        "experiment": run.experiment.model_dump(mode="json", exclude_none=True),
        "ended": run.ended,
        "gflops_per_round": run.gflops_per_round,
        "acceleration": list(run.acceleration),
        "kernels": run.kernels,
        "model_sha256": run.model_sha256,
        "versions": run.versions,
        "rounds": len(run.records),
        "columns": {
            name: _column([getattr(record, name) for record in run.records])
            for name in (*SCORES, *(field.name for field in fields(RoundRecord)))
            if name not in ("round", "scores")
        },
    }


def _column(values: Sequence[Any]) -> Any:
    short = [_short(value) for value in values]
    return {EACH: short[0]} if short and all(value == short[0] for value in short) else short


def _short(value: Any) -> Any:
    """Floats with six digits, which are enough for an accuracy; a loss that is not finite is null, as JSON needs it."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return {str(key): text for key, text in value.items()} if isinstance(value, Mapping) else value


def _from_json(line: dict[str, Any]) -> Archived:
    count, columns = int(line["rounds"]), dict(line["columns"])
    whole = {
        name: [column[EACH]] * count if isinstance(column, dict) and EACH in column else column
        for name, column in columns.items()
    }
    return Archived(
        experiment=Experiment(**of_this_version(line["experiment"])),
        goal=ACCURACY,
        records=tuple(
            _record(number + 1, {name: column[number] for name, column in whole.items()}) for number in range(count)
        ),
        ended=line["ended"],
        gflops_per_round=line["gflops_per_round"],
        acceleration=tuple(line["acceleration"]),
        kernels=line.get("kernels"),
        model_sha256=str(line["model_sha256"]),
        versions=dict(line["versions"]),
    )


def _record(number: int, columns: dict[str, Any]) -> RoundRecord:
    scores = {name: columns.pop(name) for name in SCORES}
    evaluated = any(score is not None for score in scores.values())
    return record_from_json({"round": number, "scores": scores if evaluated else {}, **columns})
