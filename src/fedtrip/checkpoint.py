"""A run's whole state after each round, so that kill -9 at any moment loses at most the round under way.

`checkpoint/server.safetensors` holds the global model and the server's state, `checkpoint/clients/` the memories.
A round is there when its server file is: it is written last, and files of the round before are removed after it.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError

from fedtrip.errors import UserError
from fedtrip.files import replacing
from fedtrip.methods.base import Vectors
from fedtrip.rounds import FederationState
from fedtrip.store import ClientStore, read_vectors, write_vectors

SCHEMA = 1
SECONDS_BETWEEN_SYNCS = 1.0
MODEL, STATE = "model ", "state "
"""What the names of the global model's vectors and of the server's own state begin with."""


class Checkpoint:
    """The checkpoint folder of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "server.safetensors"
        self._last_sync = 0.0
        self.store = ClientStore(folder / "clients")

    def exists(self) -> bool:
        """Whether a round was finished."""
        return self._file.is_file()

    def save(self, state: FederationState) -> None:
        """Write the state after a round; the round before stays valid until this one is complete."""
        state.memories.write()
        vectors: Vectors = {
            **{MODEL + name: vector for name, vector in state.server.model.items()},
            **{STATE + name: vector for name, vector in state.server.state.items()},
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        header = {"schema": SCHEMA, "round": state.round, "memories": len(state.memories)}
        with replacing(self._file) as temporary:
            write_vectors(temporary, vectors, header)
            self._sync(temporary)
        state.memories.forget_outdated()

    def restore(self, state: FederationState) -> None:
        """Bring a fresh state to where the last finished round left it; nothing is written or removed."""
        try:
            vectors, header = read_vectors(self._file)
            schema = int(header["schema"])
            round_number, memories = (int(header[name]) if schema == SCHEMA else 0 for name in ("round", "memories"))
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
            raise UserError(f"checkpoint '{self._file}' cannot be read: {problem}") from None
        if schema != SCHEMA:
            raise UserError(f"checkpoint '{self._file}' has schema version {schema}; accepted: {SCHEMA}")
        model, own = (
            {name.removeprefix(prefix): v for name, v in vectors.items() if name.startswith(prefix)}
            for prefix in (MODEL, STATE)
        )
        fits = {name: (v.shape, v.dtype) for name, v in model.items()} == {
            name: (v.shape, v.dtype) for name, v in state.server.model.items()
        }
        # What the method keeps may have another precision than it began with, or have been added later.
        if not fits or not state.server.state.keys() <= own.keys():
            raise UserError(f"checkpoint '{self._file}' does not fit the experiment; accepted: its own checkpoint")
        state.memories.restore(round_number)
        if len(state.memories) != memories:
            found = f"{len(state.memories)} clients instead of {memories}"
            raise UserError(f"checkpoint '{self._folder}' has the memories of {found}")
        state.server = replace(state.server, model=model, state=own, round=round_number)
        state.round = round_number

    def remove(self) -> None:
        """The run is finished: its checkpoint is of no use any more."""
        self._file.unlink(missing_ok=True)  # first, so that no half of it looks like a whole
        shutil.rmtree(self._folder, ignore_errors=True)

    def _sync(self, path: Path) -> None:
        """To the disk itself, at most once a second: against a loss of power, not needed against kill -9."""
        now = time.monotonic()
        if now - self._last_sync < SECONDS_BETWEEN_SYNCS:
            return
        self._last_sync = now
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
