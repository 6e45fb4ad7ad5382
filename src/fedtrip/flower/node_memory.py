"""A client's memory on its node's own disk: Flower keeps a node's state in the SuperNode's memory only, and a killed
SuperNode would lose it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from safetensors import SafetensorError

from fedtrip.errors import UserError
from fedtrip.files.atomic import replacing, sync
from fedtrip.flower.records import NEVER
from fedtrip.methods.interface import Memory
from fedtrip.rounds.memories import read_vectors, write_vectors

_RUN = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"(?P<client>\d+)-(?P<round>\d+)-(?P<exchange>\d+)\.safetensors")


class NodeMemory:
    """The memories of one client in one run, one file for each round and exchange.

    The server names the round to start from: a round that it lost has then not advanced the client. So the memory
    that a round started from is kept until a later round has started from its successor.
    """

    def __init__(self, folder: Path, run: str, client: int) -> None:
        if not _RUN.fullmatch(run):  # it comes from the network and becomes the name of a folder
            raise UserError(f"run '{run}' cannot be the name of a run; accepted: 32 hexadecimal digits")
        self._folder, self._client = folder / run, client

    def load(self, round_number: int, exchange: int) -> Memory:
        """What the client remembered after this exchange of this round."""
        if round_number == NEVER:
            return Memory()
        path = self._path(round_number, exchange)
        try:
            vectors, header = read_vectors(path)
            if (header["client"], header["round"], header["exchange"]) != (self._client, round_number, exchange):
                raise ValueError("it is of another client or round")
        except FileNotFoundError:
            raise UserError(f"client {self._client} has no memory of round {round_number} on this node") from None
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
            raise UserError(f"the memory '{path.name}' cannot be read: {problem}") from None
        return Memory.unpacked(vectors, round_number)

    def save(self, memory: Memory, exchange: int, started_from: int) -> None:
        """Keep what the client remembers after an exchange, beside what its round started from; forget the rest."""
        assert memory.last_round is not None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(memory.last_round, exchange)
        header = {"client": self._client, "round": memory.last_round, "exchange": exchange}
        with replacing(path) as temporary:
            os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
            write_vectors(temporary, memory.packed(), header)
            sync(temporary)  # a node that loses its power must have what it told the server that it has
        kept = (started_from, memory.last_round)
        for path in self._folder.iterdir():
            named = _NAME.fullmatch(path.name)
            if named and int(named["client"]) == self._client and int(named["round"]) not in kept:
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """The run is over: remove what the client kept of it."""
        for path in self._folder.glob(f"*{self._client}-*.safetensors"):
            if path.name.lstrip(".").startswith(f"{self._client}-"):  # half-written files begin with a dot
                path.unlink(missing_ok=True)
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, round_number: int, exchange: int) -> Path:
        return self._folder / f"{self._client}-{round_number}-{exchange}.safetensors"
