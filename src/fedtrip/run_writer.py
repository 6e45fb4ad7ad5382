"""Writes a run folder as the rounds come in, and takes up one that was interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from torch import Tensor

from fedtrip.checkpoint import Checkpoint
from fedtrip.errors import UserError
from fedtrip.experiment import Experiment
from fedtrip.files import write_json, write_text
from fedtrip.rounds import FederationState, RoundRecord
from fedtrip.runs import (
    CHECKPOINT,
    EXPERIMENT,
    METRICS,
    MODEL,
    SNAPSHOTS,
    SUMMARY,
    check_out,
    read_experiment,
    read_records,
    remove_run,
    write_model,
)


class RunWriter:
    """One run's folder. With `resume` it goes on with the run that the folder holds, if there is one."""

    def __init__(self, out: Path, experiment: Experiment, *, overwrite: bool, resume: bool = False) -> None:
        check_out(out, overwrite, resume)
        self.out = out
        self.checkpoint = Checkpoint(out / CHECKPOINT)
        self._metrics: TextIO | None = None
        going_on = resume and (out / EXPERIMENT).is_file()
        self.is_finished = going_on and (out / SUMMARY).is_file()
        try:
            if going_on:
                _check_same(experiment, read_experiment(out), out)
            else:
                out.mkdir(parents=True, exist_ok=True)
                self.checkpoint.remove()
                remove_run(out)
                write_text(out / EXPERIMENT, experiment.to_toml())
        except OSError as problem:
            raise UserError(f"--out '{out}' cannot be written: {problem.strerror or problem}") from None

    def continue_from(self, state: FederationState) -> Sequence[RoundRecord]:
        """Bring a fresh state to where the folder's run was interrupted; its records so far (none for a new run)."""
        records: Sequence[RoundRecord] = ()
        if self.checkpoint.exists():
            self.checkpoint.restore(state)
            records = read_records(self.out, at_most=state.round)
            if len(records) < state.round:
                raise UserError(f"'{self.out / METRICS}' has {len(records)} rounds, its checkpoint {state.round}")
        write_text(self.out / METRICS, "".join(_line(record) for record in records))
        self._metrics = (self.out / METRICS).open("a", encoding="utf-8")
        return records

    def record(self, record: RoundRecord, state: FederationState) -> None:
        """Append a round's line and write the checkpoint that makes it count."""
        self.note(record)
        self.checkpoint.save(state)

    def note(self, record: RoundRecord) -> None:
        """Append a round's line."""
        assert self._metrics is not None
        self._metrics.write(_line(record))
        self._metrics.flush()

    def snapshot(self, round_number: int, name: str, state: Mapping[str, Tensor]) -> None:
        """Keep a model of a round: `global` or `client-K`."""
        folder = self.out / SNAPSHOTS / f"round-{round_number:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        write_model(folder / f"{name}.safetensors", state)

    def finish(self, state: Mapping[str, Tensor], summary: Mapping[str, Any]) -> None:
        """Write the model, then the summary: a folder with a summary is a finished run."""
        write_model(self.out / MODEL, state)
        write_json(self.out / SUMMARY, summary)
        self.checkpoint.remove()

    def close(self) -> None:
        """Leave the folder as it is."""
        if self._metrics is not None:
            self._metrics.close()


def _line(record: RoundRecord) -> str:
    """JSON has no infinity: a loss that is not finite is null."""
    finite = record.loss is None or math.isfinite(record.loss)
    return json.dumps(asdict(record if finite else replace(record, loss=None)), allow_nan=False) + "\n"


def _check_same(experiment: Experiment, stored: Experiment, out: Path) -> None:
    """Refuse to go on with another experiment than the folder's."""
    mine, theirs = experiment.model_dump(), stored.model_dump()
    for name in mine:
        if mine[name] != theirs[name]:
            raise UserError(
                f"--out '{out}' holds another experiment: its {name} is {theirs[name]!r}, here it is {mine[name]!r}; "
                "accepted: the same experiment, another folder, or --overwrite without --resume"
            )
