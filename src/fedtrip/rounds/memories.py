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
from fedtrip.files.atomic import is_leftover, replacing, sync
from fedtrip.files.tensor_file import raw_bytes, save_file
from fedtrip.methods.interface import Memory
from fedtrip.rounds import ram
from fedtrip.vectors import Vectors


class ClientStore:
    """Memories by client; a client that never took part has an empty one.

    A file is named after its client and the round it is of, `CLIENT-ROUND.safetensors`, so that the memories of an
    earlier round are still there while the next one is being written. A memory without vectors, as of FedAvg, needs
    no file: `bare` says of which round it is. Without a folder a temporary one is used, when it is needed.

    Two states are there to be gone back to: the one that was last written, and the one that was last synced. A file
    that neither needs goes as soon as it may, so that the folder never holds more than both.
    """

    def __init__(self, folder: Path | None = None, budget: int | None = None) -> None:
        self._folder, self._is_made = folder, False
        self.budget = ram.budget() if budget is None else budget
        """bytes of memories that are kept in RAM"""
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._recent: OrderedDict[int, Memory] = OrderedDict()
        self._bytes = 0
        self.bare: dict[int, int] = {}
        self._unwritten: set[int] = set()
        self._unsynced: set[int] = set()
        self._on_disk: dict[int, int] = {}
        self._synced: dict[int, int] = {}
        """the rounds of the memories that the last synced state needs"""
        self._fresh: set[int] = set()
        """clients whose file no written state needs yet: it was written because memory was short"""
        self._outdated: dict[tuple[int, int], int] = {}
        """client and round of files that a later one has taken the place of, and their bytes"""
        self._leftovers: set[Path] = set()

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

    def has_seen(self, client: int) -> bool:
        """Whether the client ever took part (with success); nothing is read for it."""
        return client in self._recent or client in self._on_disk or client in self.bare

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
            self._replace(client, self._on_disk.pop(client))

    def write(self) -> None:
        """Write what has changed since the last time; files of earlier rounds stay until `forget_outdated`."""
        for client in sorted(self._unwritten):
            self._write(client, self._recent[client])
        self._unwritten.clear()
        self._fresh.clear()

    @property
    def written(self) -> Mapping[int, int]:
        """The round of each memory that has a file, after `write`."""
        return self._on_disk

    def sync(self) -> None:
        """Bring what `write` wrote since the last time to the disk itself."""
        sync(*(self._path(client, self._on_disk[client]) for client in sorted(self._unsynced & self._on_disk.keys())))
        if self._unsynced:
            sync(self._place())
        self._unsynced.clear()

    def forget_outdated(self, *, synced: bool) -> None:
        """The state that was last written counts now, on the disk itself if it is `synced`: remove what is not needed
        any more."""
        if synced:
            self._synced = dict(self._on_disk)
        for client, round_number in sorted(self._outdated):
            if self._synced.get(client) != round_number:
                self._path(client, round_number).unlink(missing_ok=True)
                del self._outdated[client, round_number]
        for path in self._leftovers:
            path.unlink(missing_ok=True)
        self._leftovers.clear()

    def outdated(self) -> tuple[int, int]:
        """How many files wait for the next synced state to be removed, and their bytes."""
        return len(self._outdated), sum(self._outdated.values())

    def restore(
        self,
        kept: Mapping[int, int],
        bare: Mapping[int, int] | None = None,
        *,
        synced: Mapping[int, int] | None = None,
        check_after: float = math.inf,
    ) -> None:
        """Take up the folder's memories: of each client the one of this round, or one without vectors.

        All other files of ours are outdated, but those that the `synced` state needs stay. Files of rounds after
        `check_after` may not have reached the disk: they are read now, others when needed.
        """
        files: dict[tuple[int, int], Path] = {}
        for path in self._folder.iterdir() if self._folder is not None and self._folder.is_dir() else ():
            if named := _NAME.fullmatch(path.name):
                files[int(named["client"]), int(named["round"])] = path
            elif is_leftover(path):
                self._leftovers.add(path)
        for client, round_number in sorted(kept.items()):
            if (client, round_number) not in files:
                gone = None if self._folder is None else self._folder / _file_name(client, round_number)
                raise UserError(f"the memory of client {client}, '{gone}', is gone; an older one is not used instead")
            if round_number > check_after:
                _read(files[client, round_number], client, round_number)
        self.bare, self._on_disk, self._synced = dict(bare or {}), dict(kept), dict(synced or {})
        self._outdated = {named: path.stat().st_size for named, path in files.items() if kept.get(named[0]) != named[1]}

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
        while self._bytes > self.budget and len(self._recent) > 1:
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
            self._replace(client, self._on_disk[client])
        self._outdated.pop((client, memory.last_round), None)  # of a round that was interrupted and is done again
        self._on_disk[client] = memory.last_round
        self._unsynced.add(client)
        self._fresh.add(client)

    def _replace(self, client: int, round_number: int) -> None:
        """The client's file of this round is not its newest any more."""
        path = self._path(client, round_number)
        if self._folder is None or client in self._fresh:  # nobody goes back to it
            path.unlink(missing_ok=True)
        else:
            self._outdated[client, round_number] = path.stat().st_size if path.exists() else 0

    def _path(self, client: int, round_number: int) -> Path:
        return self._place() / _file_name(client, round_number)

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


def _file_name(client: int, round_number: int) -> str:
    return f"{client}-{round_number}.safetensors"


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
