"""A run's whole state after a round: after kill -9 at any moment only what was done since has to be done again.

`checkpoint/server-ROUND.safetensors` holds the global model and the server's state, `checkpoint/clients/` the memories.
A round is there when its server file is: it is written last, and then that of the round before removed. (It has a name
of its own because ext4 starts writing to the disk at once when a file is replaced, which costs ten times as much.) Now
and then a state is brought to the disk itself; `checkpoint/synced.safetensors` is that server file, and the memories it
needs stay until the next such state, so that a loss of power leaves a whole state too. A server file names the round of
each memory that belongs to it, and the digest of the records up to its round.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment, difference
from fedtrip.files.atomic import is_leftover, replacing, sync
from fedtrip.rounds.memories import ClientStore, read_vectors, write_vectors
from fedtrip.rounds.state import FederationState
from fedtrip.vectors import Vectors

SCHEMA = 3
"""Earlier ones did not say which memories and which records are theirs: they are refused, not guessed at."""
SECONDS_BETWEEN_SYNCS = 1.0
SYNCING_PART = 0.01
"""Of the time at most this part is spent in waiting for the disk, however slow it is."""
OUTDATED_FILES, OUTDATED_BYTES = 1000, 256 * 2**20
"""When more than this waits for the next synced state to be removed, it is synced at once."""
MODEL, STATE = "model ", "state "
"""What the names of the global model's vectors and of the server's own state begin with."""
_SERVER = re.compile(r"server(-(?P<round>\d+))?\.safetensors")
BARE, KEPT = "bare", "kept"
"""Clients and rounds of the memories without vectors and of those with a file, each as two vectors."""


@dataclass(frozen=True)
class _Stored:
    """What a server file holds."""

    vectors: Vectors
    round: int
    metrics_sha256: str
    bare: Mapping[int, int]
    kept: Mapping[int, int]


class Checkpoint:
    """The checkpoint folder of one run. `origin` are digests of what the run began with, by name; `client_memory` is
    what of the memories is kept in RAM too."""

    def __init__(
        self,
        folder: Path,
        experiment: Experiment | None = None,
        origin: Mapping[str, str] | None = None,
        client_memory: int | None = None,
    ):
        self._folder = folder
        self._synced = folder / "synced.safetensors"
        self._servers: list[Path] = self._found()
        self._experiment, self._origin = experiment, dict(origin or {})
        self._whose: dict[str, object] = {"origin": self._origin}
        if experiment is not None:
            self._whose["experiment"] = experiment.to_toml()
        self._next_sync = time.monotonic() + SECONDS_BETWEEN_SYNCS
        self.store = ClientStore(folder / "clients", client_memory)

    def exists(self) -> bool:
        """Whether a round was finished."""
        return bool(self._servers) or self._synced.is_file()

    def save(
        self, state: FederationState, *, metrics: Path | None = None, metrics_sha256: str = "", at_once: bool = False
    ) -> None:
        """Write the state after a round; the round before stays valid until this one is complete.

        If it is time, or `at_once`, the state is brought to the disk itself, with the `metrics` that belong to it.
        """
        state.memories.write()
        vectors: Vectors = {
            **{MODEL + name: vector for name, vector in state.server.model.items()},
            **{STATE + name: vector for name, vector in state.server.state.items()},
            **_as_vectors(BARE, state.memories.bare),
            **_as_vectors(KEPT, state.memories.written),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        header = {"schema": SCHEMA, "round": state.round, "metrics_sha256": metrics_sha256, **self._whose}
        began = time.monotonic()
        files, size = state.memories.outdated()
        is_time = at_once or began >= self._next_sync or files > OUTDATED_FILES or size > OUTDATED_BYTES
        file = self._folder / f"server-{state.round}.safetensors"
        with replacing(file) as temporary:
            write_vectors(temporary, vectors, header)
            if is_time:
                state.memories.sync()
                sync(temporary, *([metrics] if metrics is not None else []))
        if is_time:
            with replacing(self._synced) as temporary:
                _same_file(file, temporary)
            sync(self._folder)
            now = time.monotonic()
            self._next_sync = now + max(SECONDS_BETWEEN_SYNCS, (now - began) / SYNCING_PART)
        self._servers = [*(earlier for earlier in self._servers if earlier != file), file]
        self._remove_earlier()
        state.memories.forget_outdated(synced=is_time)

    def restore(self, state: FederationState) -> str:
        """Bring a fresh state to where the last finished round left it; nothing is written or removed.

        The digest of the records that belong to it is returned. Without a checkpoint the state stays fresh.
        """
        if not self.exists():
            state.memories.restore({})
            return ""
        file = self._servers[-1] if self._servers else self._synced
        stored, synced = self._read(file), self._read_synced()
        model, own = (
            {name.removeprefix(prefix): v for name, v in stored.vectors.items() if name.startswith(prefix)}
            for prefix in (MODEL, STATE)
        )
        fits = {name: (v.shape, v.dtype) for name, v in model.items()} == {
            name: (v.shape, v.dtype) for name, v in state.server.model.items()
        }
        # What the method keeps may have another precision than it began with, or have been added later.
        if not fits or not state.server.state.keys() <= own.keys():
            raise UserError(f"checkpoint '{file}' does not fit the experiment; accepted: its own checkpoint")
        needed, last = (synced.kept, synced.round) if synced is not None else ({}, 0)
        state.memories.restore(stored.kept, stored.bare, synced=needed, check_after=last)
        state.server = replace(state.server, model=model, state=own, round=stored.round)
        state.round = stored.round
        return stored.metrics_sha256

    def clean(self, state: FederationState) -> None:
        """Remove what an interrupted process left and the restored state does not need: before anything is written,
        because it may be what the disk is full of."""
        self._remove_earlier()
        for path in self._folder.glob(".*"):
            if is_leftover(path):
                path.unlink(missing_ok=True)
        state.memories.forget_outdated(synced=False)

    def fallback(self) -> tuple[Path, int, str] | None:
        """The file without which the run goes on from an earlier round, that round, and the digest of its records;
        None if there is no such state, or none that can be read."""
        synced = self._read_synced() if self._servers else None
        return None if synced is None else (self._servers[-1], synced.round, synced.metrics_sha256)

    def remove(self) -> None:
        """The run is finished: its checkpoint is of no use any more."""
        for file in (*self._found(), self._synced):  # first, so that no half of it looks like a whole
            file.unlink(missing_ok=True)
        self._servers = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _remove_earlier(self) -> None:
        for earlier in self._servers[:-1]:
            earlier.unlink(missing_ok=True)
        self._servers = self._servers[-1:]

    def _found(self) -> list[Path]:
        """The server files that are there, the newest last; schema 1 had one without a number."""
        named = {path: _SERVER.fullmatch(path.name) for path in self._folder.glob("server*")}
        rounds = {path: int(name["round"] or -1) for path, name in named.items() if name is not None}
        return sorted(rounds, key=rounds.__getitem__)

    def _read_synced(self) -> _Stored | None:
        """The last state that was brought to the disk itself, if there is one that can be read."""
        try:
            return self._read(self._synced)
        except UserError:
            return None

    def _read(self, file: Path) -> _Stored:
        """The content of a server file that is this run's."""
        try:
            vectors, header = read_vectors(file)
            if int(header["schema"]) != SCHEMA:
                raise _OtherSchema(header["schema"])
            bare, kept = (_as_rounds(name, vectors) for name in (BARE, KEPT))
            stored = _Stored(vectors, int(header["round"]), str(header["metrics_sha256"]), bare, kept)
            whose = Experiment.from_text(header["experiment"]) if "experiment" in header else None
            origin = dict(header.get("origin", {}))
        except _OtherSchema as schema:
            raise UserError(
                f"checkpoint '{file}' has schema version {schema}; accepted: {SCHEMA}, or the version of fedtrip that "
                "began the run"
            ) from None
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
            raise UserError(f"checkpoint '{file}' cannot be read: {problem}") from None
        if whose is not None and self._experiment is not None and (other := difference(self._experiment, whose)):
            raise UserError(f"checkpoint '{file}' is of another experiment: {other}; accepted: its own checkpoint")
        for name, digest in self._origin.items():
            if origin.get(name, digest) != digest:
                raise UserError(
                    f"checkpoint '{file}' was begun with another {name}: its SHA-256 is {origin[name]}, here it is "
                    f"{digest}; accepted: what the run began with"
                )
        return stored


class _OtherSchema(Exception):
    """A server file that another version wrote."""


def _as_vectors(name: str, rounds: Mapping[int, int]) -> Vectors:
    """Clients and their rounds as two vectors, which a thousand clients do not make a long header of."""
    ordered = sorted(rounds.items())
    return {
        f"{name} clients": torch.tensor([client for client, _ in ordered], dtype=torch.int64),
        f"{name} rounds": torch.tensor([last_round for _, last_round in ordered], dtype=torch.int64),
    }


def _as_rounds(name: str, vectors: Vectors) -> dict[int, int]:
    return dict(zip(*(vectors[f"{name} {what}"].tolist() for what in ("clients", "rounds")), strict=True))


def _same_file(file: Path, name: Path) -> None:
    """A second name for a file; a copy where the file system has no such thing."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)
        sync(name)
