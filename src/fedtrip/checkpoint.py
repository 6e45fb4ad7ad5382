"""A run's whole state after each round, so that kill -9 at any moment loses at most the round under way.

`checkpoint/server-ROUND.safetensors` holds the global model and the server's state, `checkpoint/clients/` the memories.
A round is there when its server file is: it is written last, and then that of the round before removed. (It has a name
of its own because ext4 starts writing to the disk at once when a file is replaced, which costs ten times as much.) Now
and then a state is brought to the disk itself; `checkpoint/synced.safetensors` is that server file, and the memories it
needs stay until the next such state, so that a loss of power leaves a whole state too.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError

from fedtrip.errors import UserError
from fedtrip.experiment import Experiment, difference
from fedtrip.files import replacing, sync
from fedtrip.methods.base import Vectors
from fedtrip.rounds import FederationState
from fedtrip.store import ClientStore, read_vectors, write_vectors

SCHEMA = 2
READABLE = (1, 2)
"""Schema 1 had a file for every memory, and did not say what it is of."""
SECONDS_BETWEEN_SYNCS = 1.0
SYNCING_PART = 0.01
"""Of the time at most this part is spent in waiting for the disk, however slow it is."""
MODEL, STATE = "model ", "state "
"""What the names of the global model's vectors and of the server's own state begin with."""
_SERVER = re.compile(r"server(-(?P<round>\d+))?\.safetensors")
BARE_CLIENTS, BARE_ROUNDS = "bare clients", "bare rounds"


class Checkpoint:
    """The checkpoint folder of one run. `origin` are digests of what the run began with, by name."""

    def __init__(self, folder: Path, experiment: Experiment | None = None, origin: Mapping[str, str] | None = None):
        self._folder = folder
        self._synced = folder / "synced.safetensors"
        self._servers: list[Path] = self._found()
        self._experiment, self._origin = experiment, dict(origin or {})
        self._whose: dict[str, object] = {"origin": self._origin}
        if experiment is not None:
            self._whose["experiment"] = experiment.to_toml()
        self._next_sync = time.monotonic() + SECONDS_BETWEEN_SYNCS
        self.store = ClientStore(folder / "clients")

    def exists(self) -> bool:
        """Whether a round was finished."""
        return bool(self._servers) or self._synced.is_file()

    def save(self, state: FederationState, *, metrics: Path | None = None, at_once: bool = False) -> None:
        """Write the state after a round; the round before stays valid until this one is complete.

        If it is time, or `at_once`, the state is brought to the disk itself, with the `metrics` that belong to it.
        """
        state.memories.write()
        bare = sorted(state.memories.bare.items())
        vectors: Vectors = {
            **{MODEL + name: vector for name, vector in state.server.model.items()},
            **{STATE + name: vector for name, vector in state.server.state.items()},
            BARE_CLIENTS: torch.tensor([client for client, _ in bare], dtype=torch.int64),
            BARE_ROUNDS: torch.tensor([last_round for _, last_round in bare], dtype=torch.int64),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        header = {"schema": SCHEMA, "round": state.round, "memories": len(state.memories), **self._whose}
        began = time.monotonic()
        is_time = at_once or began >= self._next_sync
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
            state.memories.forget_outdated()
            now = time.monotonic()
            self._next_sync = now + max(SECONDS_BETWEEN_SYNCS, (now - began) / SYNCING_PART)
        for earlier in self._servers:
            if earlier != file:
                earlier.unlink(missing_ok=True)
        self._servers = [file]

    def restore(self, state: FederationState) -> None:
        """Bring a fresh state to where the last finished round left it; nothing is written or removed."""
        file = self._servers[-1] if self._servers else self._synced
        vectors, schema, round_number, memories = self._read(file)
        bare = (
            zip(*(vectors.pop(name).tolist() for name in (BARE_CLIENTS, BARE_ROUNDS)), strict=True)
            if schema > 1
            else ()
        )
        model, own = (
            {name.removeprefix(prefix): v for name, v in vectors.items() if name.startswith(prefix)}
            for prefix in (MODEL, STATE)
        )
        fits = {name: (v.shape, v.dtype) for name, v in model.items()} == {
            name: (v.shape, v.dtype) for name, v in state.server.model.items()
        }
        # What the method keeps may have another precision than it began with, or have been added later.
        if not fits or not state.server.state.keys() <= own.keys():
            raise UserError(f"checkpoint '{file}' does not fit the experiment; accepted: its own checkpoint")
        state.memories.restore(round_number, dict(bare), check_after=self.synced_round() or 0)
        if len(state.memories) != memories:
            found = f"{len(state.memories)} clients instead of {memories}"
            raise UserError(f"checkpoint '{self._folder}' has the memories of {found}")
        state.server = replace(state.server, model=model, state=own, round=round_number)
        state.round = round_number

    def synced_round(self) -> int | None:
        """The round of the last state that was brought to the disk itself, if there is one that can be read."""
        try:
            return self._read(self._synced)[2]
        except UserError:
            return None

    def way_out(self) -> str:
        """What to do if the newest state turns out to be damaged, as a loss of power may leave it."""
        last = self.synced_round() if self._servers else None
        return "" if last is None else f"; removing '{self._servers[-1]}' goes on from round {last}, which is whole"

    def remove(self) -> None:
        """The run is finished: its checkpoint is of no use any more."""
        for file in (*self._found(), self._synced):  # first, so that no half of it looks like a whole
            file.unlink(missing_ok=True)
        self._servers = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _found(self) -> list[Path]:
        """The server files that are there, the newest last; schema 1 had one without a number."""
        named = {path: _SERVER.fullmatch(path.name) for path in self._folder.glob("server*")}
        rounds = {path: int(name["round"] or -1) for path, name in named.items() if name is not None}
        return sorted(rounds, key=rounds.__getitem__)

    def _read(self, file: Path) -> tuple[Vectors, int, int, int]:
        """Vectors, schema, round and number of memories of a server file that is this run's."""
        try:
            vectors, header = read_vectors(file)
            schema = int(header["schema"])
            round_number, memories = (int(header[name]) if schema in READABLE else 0 for name in ("round", "memories"))
            stored = Experiment.from_text(header["experiment"]) if "experiment" in header else None
            origin = dict(header.get("origin", {}))
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
            raise UserError(f"checkpoint '{file}' cannot be read: {problem}") from None
        if schema not in READABLE:
            raise UserError(
                f"checkpoint '{file}' has schema version {schema}; accepted: {', '.join(map(str, READABLE))}"
            )
        if stored is not None and self._experiment is not None and (other := difference(self._experiment, stored)):
            raise UserError(f"checkpoint '{file}' is of another experiment: {other}; accepted: its own checkpoint")
        for name, digest in self._origin.items():
            if origin.get(name, digest) != digest:
                raise UserError(
                    f"checkpoint '{file}' was begun with another {name}: its SHA-256 is {origin[name]}, here it is "
                    f"{digest}; accepted: what the run began with"
                )
        return vectors, schema, round_number, memories


def _same_file(file: Path, name: Path) -> None:
    """A second name for a file; a copy where the file system has no such thing."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)
        sync(name)
