"""Where the clients' memories live between rounds: only clients that took part cost anything, and what does not fit
into memory lies on disk."""

from __future__ import annotations

import json
import math
import re
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from fedtrip.errors import UserError
from fedtrip.files import is_leftover, replacing, sync
from fedtrip.methods.base import Memory, Vectors
from fedtrip.tensor_file import raw_bytes, save_file

BUDGET = 256 * 2**20
"""Bytes of memories that are kept in RAM."""


class ClientStore:
    """Memories by client; a client that never took part has an empty one.

    A file is named after its client and the round it is of, `CLIENT-ROUND.safetensors`, so that the memories of an
    earlier round are still there while the next one is being written. A memory without vectors, as of FedAvg, needs
    no file: `bare` says of which round it is. Without a folder a temporary one is used, when it is needed.
    """

    def __init__(self, folder: Path | None = None, budget: int = BUDGET) -> None:
        self._folder, self._budget, self._is_made = folder, budget, False
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._recent: OrderedDict[int, Memory] = OrderedDict()
        self._bytes = 0
        self.bare: dict[int, int] = {}
        self._unwritten: set[int] = set()
        self._unsynced: set[int] = set()
        self._on_disk: dict[int, int] = {}
        self._outdated: set[Path] = set()

    def get(self, client: int) -> Memory:
        """What the client remembers."""
        if client in self._recent:
            self._recent.move_to_end(client)
            return self._recent[client]
        if client not in self._on_disk:
            return Memory(last_round=self.bare.get(client))
        memory = _read(self._path(client, self._on_disk[client]), client, self._on_disk[client])
        self._keep(client, memory)
        return memory

    def put(self, client: int, memory: Memory) -> None:
        """The client remembers this from now on."""
        if memory.packed() or memory.last_round is None:
            self.bare.pop(client, None)
            self._unwritten.add(client)
            self._keep(client, memory)
            return
        self.bare[client] = memory.last_round
        if (replaced := self._recent.pop(client, None)) is not None:
            self._bytes -= replaced.size_in_bytes()
        self._unwritten.discard(client)
        if client in self._on_disk:
            self._outdated.add(self._path(client, self._on_disk.pop(client)))

    def write(self) -> None:
        """Write what has changed since the last time; files of earlier rounds stay until `forget_outdated`."""
        for client in sorted(self._unwritten):
            self._write(client, self._recent[client])
        self._unwritten.clear()

    def sync(self) -> None:
        """Bring what `write` wrote since the last time to the disk itself."""
        sync(*(self._path(client, self._on_disk[client]) for client in sorted(self._unsynced & self._on_disk.keys())))
        if self._unsynced:
            sync(self._place())
        self._unsynced.clear()

    def forget_outdated(self) -> None:
        """Remove files that a later one has taken the place of."""
        for path in sorted(self._outdated):
            path.unlink(missing_ok=True)
        self._outdated.clear()

    def restore(self, last_round: int, bare: Mapping[int, int] | None = None, check_after: float = math.inf) -> None:
        """Take up the folder's memories as they were after this round; all other files of ours are outdated.

        Files of rounds after `check_after` may not have reached the disk: they are read now, others when needed.
        """
        self.bare = dict(bare or {})
        files: dict[tuple[int, int], Path] = {}
        for path in self._place().iterdir():
            if named := _NAME.fullmatch(path.name):
                files[int(named["client"]), int(named["round"])] = path
            elif is_leftover(path):
                self._outdated.add(path)
        for client, round_number in sorted(files):
            if round_number <= last_round and client not in self.bare:
                self._on_disk[client] = round_number
        for (client, round_number), path in files.items():
            if self._on_disk.get(client) != round_number:
                self._outdated.add(path)
            elif round_number > check_after:
                _read(path, client, round_number)

    def __len__(self) -> int:
        """How many clients have a memory."""
        return len(self._on_disk.keys() | self._recent.keys() | self.bare.keys())

    def close(self) -> None:
        """Give the temporary folder back, if there is one."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def _keep(self, client: int, memory: Memory) -> None:
        replaced = self._recent.pop(client, None)
        self._bytes += memory.size_in_bytes() - (replaced.size_in_bytes() if replaced is not None else 0)
        self._recent[client] = memory
        while self._bytes > self._budget and len(self._recent) > 1:
            oldest, memory = self._recent.popitem(last=False)
            self._bytes -= memory.size_in_bytes()
            if oldest in self._unwritten:
                self._write(oldest, memory)
                self._unwritten.discard(oldest)

    def _write(self, client: int, memory: Memory) -> None:
        assert memory.last_round is not None
        path = self._path(client, memory.last_round)
        try:
            with replacing(path) as temporary:
                write_vectors(temporary, memory.packed(), {"client": client, "round": memory.last_round})
        except (OSError, SafetensorError) as problem:
            raise UserError(f"the memory of a client, '{path}', cannot be written: {problem}") from None
        if client in self._on_disk and self._on_disk[client] != memory.last_round:
            self._outdated.add(self._path(client, self._on_disk[client]))
        self._outdated.discard(path)  # of a round that was interrupted and is done again
        self._on_disk[client] = memory.last_round
        self._unsynced.add(client)
        if self._folder is None:  # nobody goes back to an earlier round
            self.forget_outdated()

    def _path(self, client: int, round_number: int) -> Path:
        return self._place() / f"{client}-{round_number}.safetensors"

    def _place(self) -> Path:
        if self._folder is not None:
            if not self._is_made:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._is_made = True
            return self._folder
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="fedtrip-")
        return Path(self._temporary.name)


_NAME = re.compile(r"(?P<client>\d+)-(?P<round>\d+)\.safetensors")


def _read(path: Path, client: int, round_number: int) -> Memory:
    try:
        vectors, header = read_vectors(path)
        if (header["client"], header["round"]) != (client, round_number):
            raise ValueError("it is of another client or round")
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
        raise UserError(f"the memory of a client, '{path}', cannot be read: {problem}") from None
    return Memory.unpacked(vectors, round_number)


def write_vectors(path: Path, vectors: Mapping[str, torch.Tensor], header: Mapping[str, Any]) -> None:
    """Write vectors with a header and a checksum of both, which safetensors itself does not have."""
    own: Vectors = {}
    places: set[int] = set()
    for name, vector in vectors.items():  # safetensors refuses views with gaps, and two names for the same memory
        place = vector.untyped_storage().data_ptr()
        own[name] = vector.clone() if place in places else vector.contiguous()
        places.add(place)
    described = json.dumps({**header, "crc32": _checksum(own, header)})
    save_file(own, path, {"fedtrip": described})


def read_vectors(path: Path) -> tuple[Vectors, dict[str, Any]]:
    """Vectors and header of a file of `write_vectors`; some exception if it is not exactly what was written."""
    with safe_open(path, framework="pt") as stored:
        header = json.loads((stored.metadata() or {})["fedtrip"])
        vectors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118, not a dict
    if header.pop("crc32") != _checksum(vectors, header):
        raise ValueError("it is damaged")
    return vectors, header


def _checksum(vectors: Mapping[str, torch.Tensor], header: Mapping[str, Any]) -> int:
    result = zlib.crc32(json.dumps(header, sort_keys=True).encode())
    for name in sorted(vectors):
        vector = vectors[name]
        result = zlib.crc32(f"{name} {vector.dtype} {tuple(vector.shape)}".encode(), result)
        result = zlib.crc32(raw_bytes(vector), result)
    return result
