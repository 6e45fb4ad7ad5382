"""The runs and comparisons below some folders. Links are not followed, and there is an end to what is looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedtrip.comparison.folder import MANIFEST
from fedtrip.errors import UserError, shortened
from fedtrip.experiment.description import Experiment
from fedtrip.files.lock import is_locked
from fedtrip.files.plain import Stamp, read_plain, stamp_of
from fedtrip.report.folders import manifest_of
from fedtrip.runs.folder import EXPERIMENT, METRICS

MOST_RUNS, MOST_FOLDERS, DEEPEST = 1000, 20_000, 8
MOST_BYTES = 16 * 2**20
"""Of a file that is read as a whole."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison's manifest says."""

    name: str
    labels: dict[str, str]
    """name of a variant's folder → its label, in the order of its table; of two with the same runs the first's"""
    seeds: tuple[int, ...]
    variants: tuple[tuple[str, Experiment], ...]
    """label and experiment of each, as far as they can be read"""


@dataclass(frozen=True)
class FoundRun:
    """A run folder, and what it is called."""

    folder: Path
    where: str
    """as the user would write it"""
    identity: tuple[int, int, Stamp]
    """of the folder and of its experiment: another one is another run"""
    group: str
    """the folder's name, in a comparison that of the comparison: what tells two variants of one label apart"""
    label: str | None = None
    """of its variant, in a comparison"""


@dataclass
class Found:
    """What is below the folders now."""

    runs: list[FoundRun] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    waiting: int = 0
    """runs of comparisons under way that have not begun"""


class Finder:
    """Looks for runs again and again; a manifest that has not changed is not read again."""

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise UserError(
                    f"'{folder}' is not a folder; accepted: one that `fedtrip run` or `fedtrip compare` wrote, or one "
                    "above such folders"
                )
        self._roots = [(folder, folder.resolve()) for folder in folders]
        self._manifests: dict[Path, tuple[Stamp, Comparison | str]] = {}

    def look(self) -> Found:
        """Every run, once, in the order of the folders; those of a comparison in the order of its table."""
        found, known, self._left = Found(), set[tuple[int, int]](), MOST_FOLDERS
        for named, root in self._roots:
            for run in self._below(root, named, found, None, DEEPEST):
                if run.identity[:2] in known:
                    continue
                if len(found.runs) == MOST_RUNS:
                    found.remarks.append(f"Only the first {MOST_RUNS:,} runs are shown.")
                    return found
                known.add(run.identity[:2])
                found.runs.append(run)
        if not self._left:
            found.remarks.append(f"Only the first {MOST_FOLDERS:,} folders were looked at.")
        return found

    def _below(
        self, folder: Path, named: Path, found: Found, comparison: Comparison | None, depth: int
    ) -> Iterator[FoundRun]:
        if not self._left:
            return
        self._left -= 1
        try:
            identity = os.stat(folder, follow_symlinks=False)
            with os.scandir(folder) as entries:
                kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:  # it has just gone, or is not ours to read
            return
        stamp = stamp_of(folder / EXPERIMENT) if EXPERIMENT in kinds else None
        if stamp is not None and stamp_of(folder / METRICS) is not None:
            label = None if comparison is None else comparison.labels.get(folder.parent.name)
            group = folder.name if comparison is None else comparison.name
            yield FoundRun(folder, str(named), (identity.st_dev, identity.st_ino, stamp), group, label)
            return
        planned = begun = 0
        if MANIFEST in kinds and (stamp := stamp_of(folder / MANIFEST)) is not None:
            comparison = self._comparison(folder, named, stamp, found)
            if comparison is not None and is_locked(folder):
                planned = len(comparison.labels) * len(comparison.seeds)
        names = [name for name, is_folder in kinds.items() if is_folder and not name.startswith(".")]
        for name in _in_order(names, comparison if folder.name == "runs" else None) if depth else ():
            for run in self._below(folder / name, named / name, found, comparison, depth - 1):
                begun += 1
                yield run
        found.waiting += max(0, planned - begun)

    def _comparison(self, folder: Path, named: Path, stamp: Stamp, found: Found) -> Comparison | None:
        known = self._manifests.get(folder)
        if known is None or known[0] != stamp:
            known = self._manifests[folder] = (stamp, _read_comparison(folder / MANIFEST, named))
        comparison = known[1]
        if isinstance(comparison, str):
            found.remarks.append(comparison)
            return None
        found.comparisons.append(comparison)
        return comparison


def _read_comparison(path: Path, named: Path) -> Comparison | str:
    """What the manifest says, or why it cannot be read."""
    try:
        manifest = manifest_of(read_plain(path, MOST_BYTES), named / MANIFEST)
    except OSError as problem:
        return f"'{named / MANIFEST}' cannot be read: {problem.strerror or 'it is too large, or no regular file'}"
    except UserError as problem:
        return shortened(problem)
    variants, seeds = manifest["variants"], manifest["seeds"]
    if len(variants) * len(seeds) > MOST_RUNS:
        return f"'{named}' is a comparison of more than {MOST_RUNS:,} runs; its labels are not used"
    experiments = []
    texts = manifest.get("experiments")
    for text in texts if isinstance(texts, list) else []:
        try:
            experiments.append(Experiment.from_text(text))
        except (UserError, TypeError, AttributeError):  # then its runs say what they are
            break
    shown = [manifest["labels"][variant] for variant in variants]
    labels: dict[str, str] = {}
    for label, name in zip(shown, variants.values(), strict=True):
        labels.setdefault(name, label)
    return Comparison(path.parent.name, labels, tuple(seeds), tuple(zip(shown, experiments, strict=False)))


def _in_order(names: list[str], comparison: Comparison | None) -> list[str]:
    """As one counts: run-2 before run-10; the variants of a comparison as its table has them."""
    places = {} if comparison is None else {name: place for place, name in enumerate(comparison.labels)}

    def key(name: str) -> tuple[int, list[tuple[int, str]]]:
        parts = re.split(r"(\d{1,18})", name)  # every second one is a number
        numbered = [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]
        return places.get(name, len(places)), numbered

    return sorted(names, key=key)
