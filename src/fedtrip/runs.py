"""The run folder: what an experiment was, what happened in each round, what came out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.experiment import Experiment
from fedtrip.files import check_parent_writable, replacing, write_json, write_text
from fedtrip.rounds import RoundRecord

EXPERIMENT, METRICS, MODEL, SUMMARY, SNAPSHOTS = (
    "experiment.toml",
    "metrics.jsonl",
    "model.safetensors",
    "summary.json",
    "snapshots",
)


def check_out(out: Path, overwrite: bool) -> None:
    """Refuse an --out for a run that holds something else or cannot be written; nothing is created."""
    check_folder(out, EXPERIMENT, "run", overwrite)


def check_folder(out: Path, mark: str, kind: str, overwrite: bool) -> None:
    """Refuse a folder that holds something else than what `mark` marks, or that cannot be written."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out '{out}' is a file; accepted: a folder")
    if out.is_dir() and any(out.iterdir()):
        if not (out / mark).is_file():
            raise UserError(f"--out '{out}' is not empty and holds no {kind}; accepted: a new or empty folder")
        if not overwrite:
            raise UserError(f"--out '{out}' holds a {kind} already; accepted: another folder, or --overwrite")
    check_parent_writable(out, "--out")


def unused_folder(stem: str) -> Path:
    """runs/STEM, numbered if it exists."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in stem)
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder.absolute()


class RunWriter:
    """Writes a run folder as the rounds come in."""

    def __init__(self, out: Path, experiment: Experiment, *, overwrite: bool) -> None:
        check_out(out, overwrite)
        self.out = out
        try:
            out.mkdir(parents=True, exist_ok=True)
            for name in (EXPERIMENT, METRICS, MODEL, SUMMARY):
                (out / name).unlink(missing_ok=True)
            shutil.rmtree(out / SNAPSHOTS, ignore_errors=True)
            write_text(out / EXPERIMENT, experiment.to_toml())
            self._metrics: TextIO = (out / METRICS).open("w", encoding="utf-8")
        except OSError as problem:
            raise UserError(f"--out '{out}' cannot be written: {problem.strerror or problem}") from None

    def record(self, record: RoundRecord) -> None:
        """Append a round's line."""
        self._metrics.write(json.dumps(asdict(record)) + "\n")
        self._metrics.flush()

    def snapshot(self, round_number: int, name: str, state: Mapping[str, Tensor]) -> None:
        """Keep a model of a round: `global` or `client-K`."""
        folder = self.out / SNAPSHOTS / f"round-{round_number:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        write_model(folder / f"{name}.safetensors", state)

    def finish(self, state: Mapping[str, Tensor], summary: Mapping[str, Any]) -> None:
        """Write the model, then the summary: a folder with a summary is a finished run."""
        self._metrics.close()
        write_model(self.out / MODEL, state)
        write_json(self.out / SUMMARY, summary)

    def close(self) -> None:
        """Leave the folder as it is."""
        self._metrics.close()


def write_model(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write a state dict atomically."""
    with replacing(path) as temporary:
        save_file(dict(state), temporary)


def read_model(path: Path) -> dict[str, Tensor]:
    """Read a stored state dict; the format cannot execute code."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as problem:
        raise UserError(f"model '{path}' cannot be read: {problem}") from None


def read_experiment(run: Path) -> Experiment:
    """The complete experiment of a stored run."""
    if not (run / EXPERIMENT).is_file():
        raise UserError(f"'{run}' is not a run: it has no {EXPERIMENT}; accepted: a folder that `fedtrip run` wrote")
    return Experiment.from_toml(run / EXPERIMENT)


def read_summary(run: Path) -> dict[str, Any]:
    """The summary of a finished run."""
    try:
        summary = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"run '{run}' is not finished: it has no {SUMMARY}") from None
    except (OSError, ValueError) as problem:
        raise UserError(f"'{run / SUMMARY}' cannot be read: {problem}") from None
    if not isinstance(summary, dict):
        raise UserError(f"'{run / SUMMARY}' is damaged: it does not hold a JSON object")
    return summary


def read_records(run: Path) -> tuple[RoundRecord, ...]:
    """The records of a stored run."""
    try:
        lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise UserError(f"'{run / METRICS}' cannot be read: {problem.strerror or problem}") from None
    records = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            fields["clients"] = tuple(fields["clients"])
            fields["refused"] = {int(client): reason for client, reason in fields["refused"].items()}
            records.append(RoundRecord(**fields))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UserError(f"'{run / METRICS}' is damaged at line {number}") from None
    return tuple(records)
