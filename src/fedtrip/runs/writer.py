"""Writes a run folder as the rounds come in, and takes up one that was interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from safetensors import SafetensorError
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment, difference
from fedtrip.files.atomic import is_leftover, sync, write_json, write_text
from fedtrip.files.lock import FolderLock
from fedtrip.rounds.record import RoundRecord
from fedtrip.rounds.state import FederationState
from fedtrip.runs.checkpoint import Checkpoint
from fedtrip.runs.folder import (
    CHECKPOINT,
    EXPERIMENT,
    METRICS,
    MODEL,
    SNAPSHOTS,
    SUMMARY,
    Destination,
    read_experiment,
    read_lines,
    read_records,
    remove_run,
    write_model,
)
from fedtrip.runs.seal import sealed

SECONDS_BETWEEN_SAVES, COSTS_BETWEEN_SAVES = 1.0, 20
"""By default a checkpoint waits this long, and this many times as long as the last one took."""


class RunWriter:
    """One run's folder, locked.

    `origin` are digests of data and model; a run that goes on must have the same. `client_memory` is that of the
    checkpoint.
    """

    def __init__(
        self,
        destination: Destination,
        experiment: Experiment,
        *,
        origin: Mapping[str, str] | None = None,
        client_memory: int | None = None,
    ) -> None:
        destination.check()
        self.out = out = destination.out
        self._every = destination.every
        self._next_save = time.monotonic() + SECONDS_BETWEEN_SAVES
        self._state: FederationState | None = None
        self._recorded = 0
        """the last round whose line is written"""
        self._metrics: TextIO | None = None
        self._digest = hashlib.sha256()
        """of the lines that the metrics hold"""
        with _writing(out, ""):
            out.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(out)
        try:
            destination.check()  # again: another process may have written until now
            self.checkpoint = Checkpoint(out / CHECKPOINT, experiment, origin, client_memory)
            going_on = destination.resume and (out / EXPERIMENT).is_file()
            self.is_finished = going_on and (out / SUMMARY).is_file()
            with _writing(out, ""):
                if going_on:
                    _check_same(experiment, read_experiment(out), out)
                    if self.is_finished:
                        self.checkpoint.remove()  # if the process was killed just before it did
                else:
                    self.checkpoint.remove()
                    remove_run(out)
                    write_text(out / EXPERIMENT, experiment.to_toml())
                    sync(out / EXPERIMENT, out)
        except BaseException:
            self.close()
            raise

    def continue_from(self, state: FederationState) -> Sequence[RoundRecord]:
        """Bring a fresh state to where the folder's run was interrupted; its records so far (none for a new run)."""
        records: Sequence[RoundRecord] = ()
        try:
            digest = self.checkpoint.restore(state)
            if state.round:
                records = self._records_until(state.round, digest)
        except UserError as problem:
            raise UserError(f"{problem}{self._way_out()}") from None
        with _writing(self.out):
            self.checkpoint.clean(state)
            _remove_half_written(self.out)
            if records:
                self._cut_records(len(records))
            else:
                write_text(self.out / METRICS, "")
            self._metrics = (self.out / METRICS).open("a", encoding="utf-8")
        self._state, self._recorded = state, state.round
        self._next_save = time.monotonic() + SECONDS_BETWEEN_SAVES
        return records

    def _records_until(self, last: int, digest: str) -> Sequence[RoundRecord]:
        records = read_records(self.out, at_most=last)
        if len(records) < last:
            raise UserError(f"'{self.out / METRICS}' has {len(records)} rounds, its checkpoint {last}")
        if [record.round for record in records] != list(range(1, last + 1)):
            raise UserError(f"'{self.out / METRICS}' is damaged: its rounds are not 1 to {last}")
        if (found := self._digest_until(last).hexdigest()) != digest:
            raise UserError(
                f"'{self.out / METRICS}' is damaged: the SHA-256 of its first {last} lines is {found}, its checkpoint "
                f"says {digest}"
            )
        return records

    def _digest_until(self, last: int) -> hashlib._Hash:
        return hashlib.sha256(b"".join(read_lines(self.out)[:last]))

    def _cut_records(self, last: int) -> None:
        """Cut off what follows the checkpoint's rounds, in place: a full disk has no room for a second file."""
        self._digest = self._digest_until(last)
        os.truncate(self.out / METRICS, sum(map(len, read_lines(self.out)[:last])))

    def _way_out(self) -> str:
        """What to do if the newest state turns out to be damaged, as a loss of power may leave it."""
        with suppress(UserError):
            fallback = self.checkpoint.fallback()
            if fallback is not None and self._digest_until(fallback[1]).hexdigest() == fallback[2]:
                return f"; removing '{fallback[0]}' goes on from round {fallback[1]}, which is whole"
        return ""

    def record(self, record: RoundRecord, state: FederationState) -> None:
        """Append a round's line and, if it is its turn, write the checkpoint that makes it count."""
        self.note(record)
        if time.monotonic() >= self._next_save if self._every is None else record.round % self._every == 0:
            self._save(state)

    def save(self) -> None:
        """The run is about to be left: write a checkpoint at once, if the state is that of a recorded round."""
        state = self._state
        if state is not None and state.is_whole and 0 < state.round == self._recorded:
            self._save(state, at_once=True)

    def _save(self, state: FederationState, at_once: bool = False) -> None:
        began = time.monotonic()
        metrics, digest = self.out / METRICS, self._digest.hexdigest()
        with _writing(self.out):
            self.checkpoint.save(state, metrics=metrics, metrics_sha256=digest, at_once=at_once)
        now = time.monotonic()
        self._next_save = now + max(SECONDS_BETWEEN_SAVES, (now - began) * COSTS_BETWEEN_SAVES)

    def note(self, record: RoundRecord) -> None:
        """Append a round's line."""
        assert self._metrics is not None
        line = _line(record)
        with _writing(self.out):
            self._metrics.write(line)
            self._metrics.flush()
        self._digest.update(line.encode())
        self._recorded = record.round

    def snapshot(self, round_number: int, name: str, state: Mapping[str, Tensor]) -> None:
        """Keep a model of a round: `global` or `client-K`."""
        folder = self.out / SNAPSHOTS / f"round-{round_number:04d}"
        with _writing(self.out):
            folder.mkdir(parents=True, exist_ok=True)
            write_model(folder / f"{name}.safetensors", state)

    def finish(self, state: Mapping[str, Tensor], summary: Mapping[str, Any]) -> None:
        """Write the model, then the summary, with digests of all: a folder with a summary is a finished run."""
        with _writing(self.out):
            write_model(self.out / MODEL, state)
            sync(self.out / MODEL, self.out / METRICS)
            write_json(self.out / SUMMARY, sealed(self.out, summary, (EXPERIMENT, METRICS, MODEL)))
            sync(self.out / SUMMARY, self.out)
        self._state = None  # a finished run needs no checkpoint any more
        self.checkpoint.remove()

    def close(self) -> None:
        """Leave the folder as it is, to whoever wants to write it."""
        if self._metrics is not None:
            with suppress(OSError):  # of a line that could not be written, which was told already
                self._metrics.close()
        self._lock.release()


@contextmanager
def _writing(out: Path, hint: str = "; --resume goes on when it can") -> Iterator[None]:
    """A disk that is full or gone is told in one line; the folder is good up to its last checkpoint."""
    try:
        yield
    except (OSError, SafetensorError) as problem:
        told = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
        raise UserError(f"--out '{out}' cannot be written: {told}{hint}") from None


def _remove_half_written(out: Path) -> None:
    """Remove what atomic writing leaves behind if the process is killed before the renaming."""
    for folder in (out, *(out / SNAPSHOTS).glob("round-*")):
        for path in folder.glob(".*"):
            if is_leftover(path):
                path.unlink(missing_ok=True)


def _line(record: RoundRecord) -> str:
    return json.dumps(record.as_json(), allow_nan=False) + "\n"


def _check_same(experiment: Experiment, stored: Experiment, out: Path) -> None:
    """Refuse to go on with another experiment than the folder's."""
    if (other := difference(experiment, stored)) is not None:
        raise UserError(
            f"--out '{out}' holds another experiment: {other}; accepted: the same experiment, another folder, or "
            "--overwrite without --resume"
        )
