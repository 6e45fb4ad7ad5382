"""The run folder: what an experiment was, what happened in each round, what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedtrip.errors import UserError, shortened
from fedtrip.experiment.description import Experiment
from fedtrip.files.atomic import check_parent_writable, file_name, is_leftover, replacing
from fedtrip.rounds.record import RoundRecord, record_from_json
from fedtrip.runs.seal import check_files, check_model, check_summary

EXPERIMENT, METRICS, MODEL, SUMMARY, SNAPSHOTS, CHECKPOINT, EVENTS = (
    "experiment.toml",
    "metrics.jsonl",
    "model.safetensors",
    "summary.json",
    "snapshots",
    "checkpoint",
    "tensorboard",
)


@dataclass(frozen=True)
class Destination:
    """The folder that a run or a comparison is written to, and what becomes of one that it holds."""

    out: Path
    overwrite: bool = False
    """it is replaced"""
    resume: bool = False
    """it goes on, if there is one"""
    every: int | None = None
    """rounds between a run's checkpoints; None: by time"""

    def __post_init__(self) -> None:
        if self.overwrite and self.resume:
            raise UserError("--overwrite and --resume exclude each other; accepted: one of them")
        if self.every is not None and self.every < 1:
            raise UserError(f"checkpoint_every is {self.every}; accepted: at least 1")

    def check(self, mark: str = EXPERIMENT, kind: str = "run") -> None:
        """Refuse a folder that holds something else than what `mark` marks, or that cannot be written.

        Nothing is created.
        """
        out = self.out
        if out.exists() and not out.is_dir():
            raise UserError(f"--out '{out}' is a file; accepted: a folder")
        if out.is_dir() and not all(is_leftover(path) for path in out.iterdir()):
            if not (out / mark).is_file():
                raise UserError(f"--out '{out}' is not empty and holds no {kind}; accepted: a new or empty folder")
            if not (self.overwrite or self.resume):
                raise UserError(
                    f"--out '{out}' holds a {kind} already; accepted: another folder, --overwrite or --resume"
                )
        check_parent_writable(out, "--out")


def unused_folder(stem: str) -> Path:
    """runs/STEM, numbered if it exists."""
    name = file_name(stem)
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder.absolute()


def remove_run(folder: Path) -> None:
    """Remove the files of a run and the folders that are empty then; never a file that a run did not write.

    The summary first and the experiment last: what is left of a removal that was cut short is still an unfinished run.
    """
    for name in (SUMMARY, MODEL, METRICS):
        (folder / name).unlink(missing_ok=True)
    rounds = list((folder / SNAPSHOTS).glob("round-*"))
    for model in (model for kept in rounds for model in kept.glob("*.safetensors")):
        model.unlink()
    for events in (folder / EVENTS).glob("events.out.tfevents.*"):
        events.unlink()
    for emptied in (*rounds, folder / SNAPSHOTS, folder / EVENTS):
        with suppress(OSError):  # it holds something else, or is not there
            emptied.rmdir()
    (folder / EXPERIMENT).unlink(missing_ok=True)


def write_model(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write a state dict atomically."""
    with replacing(path) as temporary:
        save_file(dict(state), temporary)


def read_finished_model(run: Path, summary: Mapping[str, Any]) -> dict[str, Tensor]:
    """The model of a finished run, if it and the run's other files are what the run wrote."""
    state = read_model(run / MODEL)
    check_files(run, summary)
    check_model(run / MODEL, state, summary)
    return state


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
    """The summary of a finished run; its digest is checked, those of other files by `read_finished_model`."""
    try:
        content = (run / SUMMARY).read_bytes()
    except FileNotFoundError:
        raise UserError(f"run '{run}' is not finished: it has no {SUMMARY}") from None
    except OSError as problem:
        raise UserError(f"'{run / SUMMARY}' cannot be read: {problem}") from None
    return summary_of(content, run / SUMMARY)


def summary_of(content: bytes, path: Path) -> dict[str, Any]:
    """The summary that a file holds, which errors call so."""
    try:
        summary = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        raise UserError(f"'{path}' cannot be read: {problem}") from None
    if not isinstance(summary, dict):
        raise UserError(f"'{path}' is damaged: it does not hold a JSON object")
    for name, is_right in _SUMMARY_FIELDS.items():
        if not is_right(summary.get(name)):
            raise UserError(f"'{path}' is damaged: its {name} is {shortened(repr(summary.get(name)))}")
    check_summary(path, summary)
    return summary


_GOAL = {"score": str, "higher_is_better": bool, "is_share": bool}
_SUMMARY_FIELDS: dict[str, Callable[[Any], bool]] = {
    "goal": lambda value: (
        value is None or (isinstance(value, dict) and {name: type(part) for name, part in value.items()} == _GOAL)
    ),
    "ended": lambda value: value is None or isinstance(value, str),
    "stopped": lambda value: value is None or isinstance(value, str),
    "remark": lambda value: value is None or isinstance(value, str),
    "method_label": lambda value: value is None or isinstance(value, str),
    "gflops_per_round": lambda value: value is None or type(value) in (int, float),
    "acceleration": lambda value: value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value)),
    "kernels": lambda value: value is None or isinstance(value, str),
    "versions": lambda value: (
        value is None or (isinstance(value, dict) and all(isinstance(version, str) for version in value.values()))
    ),
}
"""The parts of a summary that are read again."""


def read_records(run: Path, at_most: int | None = None) -> tuple[RoundRecord, ...]:
    """The records of a stored run, or only the first ones: a round under way may have left half a line."""
    records = []
    for number, line in enumerate(read_lines(run)[:at_most], 1):
        try:
            records.append(record_from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UserError(f"'{run / METRICS}' is damaged at line {number}") from None
    return tuple(records)


def read_lines(run: Path) -> list[bytes]:
    """The lines of a run's records as they were written, each with its end."""
    try:
        return (run / METRICS).read_bytes().splitlines(keepends=True)
    except OSError as problem:
        raise UserError(f"'{run / METRICS}' cannot be read: {problem.strerror or problem}") from None
