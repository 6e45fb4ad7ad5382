"""From run and comparison folders to the runs of each variant."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtrip.comparison.folder import MANIFEST
from fedtrip.comparison.tuning_folder import TUNING, VERDICT
from fedtrip.errors import UserError, shortened
from fedtrip.experiment.description import Experiment
from fedtrip.runs.folder import EXPERIMENT, SUMMARY, read_summary
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
        tuned = _manifest(folder)["tuned"] if (folder / MANIFEST).is_file() else {}
        for label, run in _runs_of(folder):
            if not (run / SUMMARY).is_file():
                unfinished[f"{label}, seed {run.name}" if (folder / MANIFEST).is_file() else label] = run
                continue
            result = load_result(run)
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
        collected.commands.append(_command(folder))
        if unfinished:
            what = "1 run is" if len(unfinished) == 1 else f"{len(unfinished)} runs are"
            collected.remarks.append(
                f"{what} not finished in '{folder.resolve().name}' and not part of this report: "
                f"{_what_there_is(unfinished)}. To go on: {_to_go_on(folder)}"
            )
    if not collected.histories:
        named = ", ".join(repr(str(folder)) for folder in folders)
        watch = shlex.join(["fedtrip", "watch", *map(str, folders)])
        told = "; ".join(collected.remarks)
        raise UserError(f"no finished run in {named}; {told}; the curves so far: {watch}")
    for trials in collected.histories.values():
        trials.sort(key=lambda run: run.experiment.seed)
    return collected


def _runs_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Label and folder of every run."""
    accepted = "accepted: a folder that `fedtrip run`, `fedtrip compare` or `fedtrip tune` wrote"
    if not folder.is_dir():
        raise UserError(f"'{folder}' is not a folder; {accepted}")
    if (folder / MANIFEST).is_file():
        manifest = _manifest(folder)
        for label, name in manifest["variants"].items():
            for seed in manifest["seeds"]:
                yield label, folder / "runs" / name / str(seed)
    elif (folder / EXPERIMENT).is_file():
        yield Experiment.from_toml(folder / EXPERIMENT).method.name, folder
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


def _to_go_on(folder: Path) -> str:
    """The command that finishes what the folder holds."""
    if not (folder / MANIFEST).is_file():
        return f"fedtrip run --resume {shlex.quote(str(folder))}"
    typed = _manifest(folder).get("command")
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
    """The comparison that a manifest describes: label → folder of each variant, and the seeds; no path leads out."""
    try:
        manifest = json.loads(content.decode("utf-8"))
        known = dict(manifest["variants"]), list(manifest["seeds"])
        tuned = {str(label): [str(name) for name in fields] for label, fields in manifest.get("tuned", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UserError(f"'{path}' cannot be read: {problem}") from None
    for name in known[0].values():
        if not _is_folder_name(name):
            named = shortened(repr(name))
            raise UserError(f"'{path}' names the folder {named}; accepted: the name of one in runs/")
    for seed in known[1]:
        if type(seed) is not int:
            raise UserError(f"'{path}' has the seed {shortened(repr(seed))}; accepted: integers")
    return {**manifest, "variants": known[0], "seeds": known[1], "tuned": tuned}


def _is_folder_name(name: object) -> bool:
    """Whether it is a single name that stays where it is, as `Variant.folder` makes them."""
    return isinstance(name, str) and name not in ("", ".", "..") and not any(c in "/\\\0" for c in name)


def _command(folder: Path) -> str:
    """What repeats the runs of a folder: the command that was typed, or the stored experiments."""
    if not (folder / MANIFEST).is_file():
        return f"fedtrip run {shlex.quote(str(folder / EXPERIMENT))} --out again"
    typed = _manifest(folder).get("command")
    each = f"{shlex.quote(str(folder))}/runs/*/*/{EXPERIMENT}"
    return typed if isinstance(typed, str) else f'for run in {each}; do fedtrip run "$run"; done'
