"""A run's whole state after each round, so that kill -9 at any moment loses at most the round under way.

`checkpoint/server.safetensors` holds the global model and the server's state, `checkpoint/clients/` the memories.
A round is there when its server file is: it is written last, and files of the round before are removed after it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fedtrip.errors import UserError
from fedtrip.files import replacing
from fedtrip.methods.base import Vectors
from fedtrip.rounds import FederationState
from fedtrip.store import ClientStore

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
        header = json.dumps({"schema": SCHEMA, "round": state.round})
        with replacing(self._file) as temporary:
            save_file(vectors, temporary, metadata={"fedtrip": header})
            self._sync(temporary)
        state.memories.forget_outdated()

    def restore(self, state: FederationState) -> None:
        """Bring a fresh state to where the last finished round left it."""
        try:
            with safe_open(self._file, framework="pt") as stored:
                header = json.loads((stored.metadata() or {})["fedtrip"])
                vectors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118, not a dict
            schema, round_number = int(header["schema"]), int(header["round"])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
            raise UserError(f"checkpoint '{self._file}' cannot be read: {problem}") from None
        if schema != SCHEMA:
            raise UserError(f"checkpoint '{self._file}' has schema version {schema}; accepted: {SCHEMA}")
        parts: list[Vectors] = []
        for prefix, fresh in ((MODEL, state.server.model), (STATE, state.server.state)):
            part = {name.removeprefix(prefix): v for name, v in vectors.items() if name.startswith(prefix)}
            expected = {name: (v.shape, v.dtype) for name, v in fresh.items()}
            if {name: (v.shape, v.dtype) for name, v in part.items()} != expected:
                raise UserError(f"checkpoint '{self._file}' does not fit the experiment; accepted: its own checkpoint")
            parts.append(part)
        state.memories.restore(round_number)
        state.server = replace(state.server, model=parts[0], state=parts[1], round=round_number)
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
