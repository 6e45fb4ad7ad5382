"""A tuning's folder: tuning.json from the beginning, which grows with every rung, and the configurations' runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedtrip.comparison.folder import MANIFEST, remove_comparison, writing
from fedtrip.comparison.tuning import Plan, Rung
from fedtrip.comparison.tuning_judge import Standing
from fedtrip.errors import UserError
from fedtrip.files.atomic import file_name, write_json
from fedtrip.files.lock import FolderLock
from fedtrip.runs.checkpoint import Checkpoint
from fedtrip.runs.folder import CHECKPOINT, EXPERIMENT, Destination, remove_run

TUNING, PAGE, RUNS, VERDICT = "tuning.json", "tuning.md", "tuning", "verdict"
SCHEMA = 1


class TuningFolder:
    """The folder of one tuning, locked: what is done is stored there, and what was done before can be asked for."""

    def __init__(self, out: Path, manifest: Mapping[str, Any], rungs: Sequence[Rung]) -> None:
        self.out, self._manifest = out, dict(manifest)
        self.rungs = list(rungs)
        """those that are done"""

    @property
    def command(self) -> str | None:
        """What began it, if it was typed."""
        command: str | None = self._manifest["command"]
        return command

    @property
    def verdict(self) -> Path:
        """The folder of the comparison on fresh seeds."""
        return self.out / VERDICT

    def run(self, method: str, number: int, seed: int) -> Path:
        """Where a trial of a configuration lies."""
        return self.out / RUNS / file_name(method) / str(number) / str(seed)

    def store(self, rung: Rung) -> None:
        """A rung is done: from now on it is not run again."""
        self.rungs.append(rung)
        self.write()

    def write(self, **outcome: Any) -> None:
        """Write tuning.json with all rungs that are done, and with what came out of them."""
        rungs = [
            {method: {str(number): asdict(one) for number, one in of.items()} for method, of in rung.items()}
            for rung in self.rungs
        ]
        with writing(self.out):
            write_json(self.out / TUNING, {**self._manifest, "standings": rungs, **outcome})

    def forget(self, method: str, number: int, seeds: Sequence[int]) -> None:
        """A configuration does not go on: its records stay, what it would go on from is removed."""
        for seed in seeds:
            Checkpoint(self.run(method, number, seed) / CHECKPOINT).remove()


@contextmanager
def tuning_folder(
    destination: Destination,
    plan: Plan,
    experiments: Mapping[str, str],
    data_sha256: str,
    command: str | None,
) -> Iterator[TuningFolder]:
    """The folder, locked, with the plan in it; an earlier tuning goes unless it is resumed.

    `experiments` are those of the methods before they are tuned, as TOML.
    """
    out = destination.out
    manifest = {
        "schema_version": SCHEMA,
        "command": command,
        **plan.as_json(),
        "experiments": dict(experiments),
        "data_sha256": data_sha256,
    }
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(out)
    try:
        destination.check(TUNING, "tuning")  # again: another process may have written until now
        if destination.resume and (out / TUNING).is_file():
            folder = _gone_on_with(out, manifest, plan)
        else:
            with writing(out):
                _remove(out)
            folder = TuningFolder(out, manifest, ())
        Destination(folder.verdict, resume=True).check(MANIFEST, "comparison")  # not only when all is spent
        folder.write()
        yield folder
    finally:
        lock.release()


def _gone_on_with(out: Path, mine: Mapping[str, Any], plan: Plan) -> TuningFolder:
    """The tuning that the folder holds, if it is the same."""
    accepted = "accepted: the same tuning, another folder, or --overwrite without --resume"
    try:
        theirs = json.loads((out / TUNING).read_text(encoding="utf-8"))
        plain = json.loads(json.dumps(mine))
        for name in (name for name in plain if name != "command"):
            if theirs[name] != plain[name]:
                raise _Another(_told(name, theirs[name], plain[name]))
        rungs = [
            {method: {int(number): _standing(one) for number, one in of.items()} for method, of in rung.items()}
            for rung in theirs["standings"]
        ]
        for rung, count in zip(rungs, plan.halving.configurations, strict=False):
            if any(len(rung[one.method]) != count for one in plan.methods):
                raise ValueError("a rung does not have all configurations")
        command = theirs["command"]
    except _Another as problem:
        raise UserError(f"--out '{out}' holds another tuning: {problem}; {accepted}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UserError(f"'{out / TUNING}' cannot be read: {problem!r}; {accepted}") from None
    return TuningFolder(out, {**mine, "command": command}, rungs)


def _standing(stored: Mapping[str, Any]) -> Standing:
    one = Standing(
        int(stored["until"]), tuple(stored["reached"]), tuple(stored["scores"]), int(stored["run"])
    )  # JSON has no tuples
    known = all(score is None or isinstance(score, float) for score in one.scores)
    if not known or not all(number is None or type(number) is int for number in one.reached):
        raise ValueError("a standing is not made of numbers")
    return one


class _Another(Exception):
    """In what a tuning is not the stored one."""


def _told(name: str, theirs: Any, mine: Any) -> str:
    """In what two plans differ: a short value is shown."""
    if isinstance(theirs, dict) and isinstance(mine, dict) and list(theirs) != list(mine):
        theirs, mine = list(theirs), list(mine)
    shown = [str(value) for value in (theirs, mine)]
    if max(map(len, shown)) > 100:
        return f"its {name} are others"
    return f"its {name} is {shown[0]}, here it is {shown[1]}"


def _remove(out: Path) -> None:
    """Remove what an earlier tuning wrote there, and nothing else; tuning.json, which marks the folder, is replaced."""
    (out / PAGE).unlink(missing_ok=True)
    for run in sorted((out / RUNS).glob("*/*/*/")):
        if (run / EXPERIMENT).is_file():
            Checkpoint(run / CHECKPOINT).remove()
            remove_run(run)
    for depth in ("*/*/*/", "*/*/", "*/"):
        for emptied in sorted((out / RUNS).glob(depth)):
            with suppress(OSError):  # it holds something else
                emptied.rmdir()
    with suppress(OSError):
        (out / RUNS).rmdir()
    remove_comparison(out / VERDICT)
