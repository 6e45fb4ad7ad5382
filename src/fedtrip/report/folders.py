"""From run and comparison folders to the runs of each variant."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtrip.comparison.baseline import BASELINE, baselines_of, check_baseline
from fedtrip.comparison.folder import MANIFEST
from fedtrip.comparison.tuning_folder import TUNING, VERDICT
from fedtrip.comparison.variants import Variant
from fedtrip.errors import UserError, shortened
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.names import shown_method
from fedtrip.runs.folder import EXPERIMENT, SUMMARY, read_experiment, read_summary
from fedtrip.runs.result import Result
from fedtrip.runs.stored import load_result
from fedtrip.runs.unfinished import so_far

MOST_NAMED = 5
"""Unfinished runs that are named one by one."""


@dataclass
class Collected:
    """What some folders hold, together."""

    histories: dict[str, list[Result]] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    """what repeats each folder's runs"""
    versions: list[dict[str, str]] = field(default_factory=list)
    """the different sets of versions that the runs were made with"""
    remarks: list[str] = field(default_factory=list)
    tuned: dict[str, list[str]] = field(default_factory=dict)
    """the fields that were chosen for a variant that was tuned"""
    baselines: list[str] = field(default_factory=list)
    """what the comparisons' speed-ups were over"""

    @property
    def variants(self) -> list[Variant]:
        """What the runs are of; a variant goes on to be known by its label here if it gets another."""
        return [
            Variant(label, runs[0].experiment, label, frozenset(self.tuned[label]) if label in self.tuned else None)
            for label, runs in self.histories.items()
        ]

    def baseline(self, asked: str | None) -> str:
        """What speed-ups are over: what was asked for, or what the comparisons had if they agree, else FedAvg."""
        if asked is not None:
            return check_baseline(self.variants, asked)
        agreed = len(self.baselines) == 1 and baselines_of(self.variants, self.baselines[0])
        return self.baselines[0] if agreed else BASELINE


def read_folders(folders: Sequence[Path]) -> Collected:
    """All finished runs of run folders and comparison folders; of a tuning's folder those of its verdict.

    Runs of the same experiment under other seeds are trials of one variant, whichever folder they come from. Other
    experiments under the same label get their folder's name.
    """
    collected = Collected()
    sources: dict[str, Experiment] = {}
    for given in folders:
        folder = given / VERDICT if (given / TUNING).is_file() else given
        unfinished: dict[str, Path] = {}
        manifest = _manifest(folder) if (folder / MANIFEST).is_file() else None
        tuned = {} if manifest is None else manifest["tuned"]
        for called, run in _runs_of(folder, manifest):
            if not (run / SUMMARY).is_file():
                alone = called is None
                told = shown_method(read_experiment(run).method.name) if alone else f"{called}, seed {run.name}"
                unfinished[told] = run
                continue
            result = load_result(run)
            label = called or result.label
            plain = result.experiment.but(seed=0)
            name = label if sources.get(label, plain) == plain else f"{label} ({folder.resolve().name})"
            if sources.setdefault(name, plain) != plain:
                raise UserError(f"'{run}' holds another experiment than an earlier '{name}'; accepted: a report each")
            trials = collected.histories.setdefault(name, [])
            if label in tuned:
                collected.tuned[name] = tuned[label]
            if all(known.experiment.seed != result.experiment.seed for known in trials):
                trials.append(result)
            used = read_summary(run).get("versions")
            if isinstance(used, dict) and used not in collected.versions:
                collected.versions.append(used)
        collected.commands.append(_command(folder, manifest))
        stored = None if manifest is None else manifest.get("baseline")
        if stored is not None and stored not in collected.baselines:
            collected.baselines.append(stored)
        if unfinished:
            what = "1 run is" if len(unfinished) == 1 else f"{len(unfinished)} runs are"
            collected.remarks.append(
                f"{what} not finished in '{folder.resolve().name}' and not part of this report: "
                f"{_what_there_is(unfinished)}. To go on: {_to_go_on(folder, manifest)}"
            )
    if not collected.histories:
        named = ", ".join(repr(str(folder)) for folder in folders)
        watch = shlex.join(["fedtrip", "watch", *map(str, folders)])
        told = "; ".join(collected.remarks)
        raise UserError(f"no finished run in {named}; {told}; the curves so far: {watch}")
    for trials in collected.histories.values():
        trials.sort(key=lambda run: run.experiment.seed)
    return collected


def _runs_of(folder: Path, manifest: Mapping[str, Any] | None) -> Iterator[tuple[str | None, Path]]:
    """Label and folder of every run; None if it says itself what it is called."""
    accepted = "accepted: a folder that `fedtrip run`, `fedtrip compare` or `fedtrip tune` wrote"
    if not folder.is_dir():
        raise UserError(f"'{folder}' is not a folder; {accepted}")
    if manifest is not None:
        for variant, name in manifest["variants"].items():
            for seed in manifest["seeds"]:
                yield manifest["labels"][variant], folder / "runs" / name / str(seed)
    elif (folder / EXPERIMENT).is_file():
        yield None, folder
    else:
        raise UserError(f"'{folder}' holds neither a run nor a comparison; {accepted}")


def _what_there_is(unfinished: Mapping[str, Path]) -> str:
    """How far some runs are, those that have begun first."""
    begun = {label: run for label, run in unfinished.items() if (run / EXPERIMENT).is_file()}
    told = [f"{label}: {so_far(run)}" for label, run in list(begun.items())[:MOST_NAMED]]
    if len(begun) > MOST_NAMED:
        told.append(f"{len(begun) - MOST_NAMED} more that have begun")
    if len(begun) < len(unfinished):
        told.append(f"{len(unfinished) - len(begun)} not begun")
    return "; ".join(told)


def _to_go_on(folder: Path, manifest: Mapping[str, Any] | None) -> str:
    """The command that finishes what the folder holds."""
    if manifest is None:
        return f"fedtrip run --resume {shlex.quote(str(folder))}"
    typed = manifest.get("command")
    if not isinstance(typed, str):
        return f"the same comparison with --resume --out {shlex.quote(str(folder))} (in Python resume=True)"
    try:
        words = [word for word in shlex.split(typed) if word not in ("--overwrite", "--resume")]
    except ValueError:  # not a command that we wrote
        words = ["fedtrip", "compare"]
    out = [] if any(word == "--out" or word.startswith("--out=") for word in words) else ["--out", str(folder)]
    return shlex.join([*words, *out, "--resume"])


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        content = (folder / MANIFEST).read_bytes()
    except OSError as problem:
        raise UserError(f"'{folder / MANIFEST}' cannot be read: {problem}") from None
    return manifest_of(content, folder / MANIFEST)


def manifest_of(content: bytes, path: Path) -> dict[str, Any]:
    """The comparison that a manifest describes: folder and label of each variant, and the seeds; no path leads out."""
    try:
        manifest = json.loads(content.decode("utf-8"))
        known = dict(manifest["variants"]), list(manifest["seeds"])
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise UserError(f"'{path}' cannot be read: {problem}") from None
    for name in known[0].values():
        if not _is_folder_name(name):
            named = shortened(repr(name))
            raise UserError(f"'{path}' names the folder {named}; accepted: the name of one in runs/")
    for seed in known[1]:
        if type(seed) is not int:
            raise UserError(f"'{path}' has the seed {shortened(repr(seed))}; accepted: integers")
    return {**manifest, "variants": known[0], "seeds": known[1], **_how_shown(manifest, known[0], path)}


def _how_shown(manifest: Mapping[str, Any], variants: Iterable[str], path: Path) -> dict[str, Any]:
    """The labels of the variants, the fields of the tuned ones by label, and what speed-ups are over."""
    try:
        labels = {name: name for name in variants} | dict(manifest.get("labels", {}))
        fields = {str(name): [str(one) for one in some] for name, some in manifest.get("tuned", {}).items()}
    except (ValueError, TypeError, AttributeError) as problem:
        raise UserError(f"'{path}' cannot be read: {problem}") from None
    for label in labels.values():
        if not isinstance(label, str):
            raise UserError(f"'{path}' has the label {shortened(repr(label))}; accepted: a text")
    if len(set(labels.values())) < len(labels):
        raise UserError(f"'{path}' gives two variants one label; accepted: each label once")
    if not isinstance(baseline := manifest.get("baseline", BASELINE), str):
        raise UserError(f"'{path}' has the baseline {shortened(repr(baseline))}; accepted: a text")
    return {"labels": labels, "tuned": {labels.get(name, name): some for name, some in fields.items()}}


def _is_folder_name(name: object) -> bool:
    """Whether it is a single name that stays where it is, as `Variant.folder` makes them."""
    return isinstance(name, str) and name not in ("", ".", "..") and not any(c in "/\\\0" for c in name)


def _command(folder: Path, manifest: Mapping[str, Any] | None) -> str:
    """What repeats the runs of a folder: the command that was typed, or the stored experiments."""
    if manifest is None:
        return f"fedtrip run {shlex.quote(str(folder / EXPERIMENT))} --out again"
    typed = manifest.get("command")
    each = f"{shlex.quote(str(folder))}/runs/*/*/{EXPERIMENT}"
    return typed if isinstance(typed, str) else f'for run in {each}; do fedtrip run "$run"; done'
