"""A comparison's folder: taken by one process at a time, for a new comparison or to go on with the one it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedtrip.comparison.baseline import BASELINE
from fedtrip.comparison.variants import Variant
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment, difference
from fedtrip.experiment.federation import Federation
from fedtrip.files.atomic import write_json
from fedtrip.files.lock import FolderLock
from fedtrip.runs.checkpoint import Checkpoint
from fedtrip.runs.folder import CHECKPOINT, EXPERIMENT, Destination, remove_run

MANIFEST = "comparison.json"
HOW_SHOWN = ("labels", "baseline")
"""What the variants are called and held against in the tables: not what the comparison is."""
TABLE, LATEX, PLOT, REPORT = "table.md", "table.tex", "convergence.png", "report.html"
OTHERS = ("table.csv", "table.json", LATEX, "convergence.pdf", "convergence.svg")


@contextmanager
def comparison_folder(
    destination: Destination,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    federations: Sequence[Federation],
    command: str | None,
    baseline: str = BASELINE,
) -> Iterator[None]:
    """The folder, locked, with the manifest of this comparison in it; an earlier comparison goes unless resumed."""
    out = destination.out
    tuned = {variant.name or variant.label: sorted(variant.tuned) for variant in variants if variant.tuned is not None}
    manifest = {
        "variants": {variant.name or variant.label: variant.folder for variant in variants},
        "labels": {variant.name or variant.label: variant.label for variant in variants},
        "baseline": baseline,
        "seeds": list(seeds),
        "experiments": [federation.experiment.to_toml() for federation in federations],
        "data_sha256": [federation.dataset.sha256() for federation in federations],
        "command": command,
        **({"tuned": tuned} if tuned else {}),
    }
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(out)
    try:
        destination.check(MANIFEST, "comparison")  # again: another process may have written until now
        if destination.resume and (out / MANIFEST).is_file():
            stored = _check_same(out, manifest)
            how = {name: manifest[name] for name in HOW_SHOWN}
            if {name: stored.get(name) for name in HOW_SHOWN} != how:
                with writing(out):
                    write_json(out / MANIFEST, {**stored, **how})
        else:
            with writing(out):
                _remove_runs(out)
                write_json(out / MANIFEST, manifest)
        yield
    finally:
        lock.release()


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """A disk that is full or gone is told in one line."""
    try:
        yield
    except OSError as problem:
        raise UserError(f"--out '{out}' cannot be written: {problem.strerror or problem}") from None


def _check_same(out: Path, mine: dict[str, Any]) -> dict[str, Any]:
    """Refuse to go on with another comparison than the folder's; what is stored of it."""
    accepted = "accepted: the same comparison, another folder, or --overwrite without --resume"
    try:
        theirs = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        stored = [Experiment.from_text(text) for text in theirs["experiments"]]
        for name in ("variants", "seeds", "data_sha256"):
            if theirs[name] != mine[name]:
                here, there = (list(both[name]) for both in (mine, theirs))
                raise _Another(f"its {name} are {there}, here they are {here}")
        for label, text, experiment in zip(mine["variants"], mine["experiments"], stored, strict=True):
            if (other := difference(Experiment.from_text(text), experiment)) is not None:
                raise _Another(f"{label}: {other}")
    except _Another as problem:
        raise UserError(f"--out '{out}' holds another comparison: {problem}; {accepted}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise UserError(f"'{out / MANIFEST}' cannot be read: {problem!r}; {accepted}") from None
    return dict(theirs)


class _Another(Exception):
    """In what a comparison is not the stored one."""


def remove_comparison(out: Path) -> None:
    """Remove a comparison, and its folder if nothing else is in it."""
    if (out / MANIFEST).is_file():
        _remove_runs(out)
        (out / MANIFEST).unlink()
    with suppress(OSError):
        out.rmdir()


def _remove_runs(out: Path) -> None:
    """Remove what an earlier comparison wrote there, and nothing else."""
    for name in (TABLE, *OTHERS, PLOT, REPORT):
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
