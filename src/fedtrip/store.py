"""Where the clients' memories live between rounds: only clients that took part cost anything, and what does not fit
into memory lies on disk."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedtrip.errors import UserError
from fedtrip.files import replacing
from fedtrip.methods.base import Memory

BUDGET = 256 * 2**20
"""Bytes of memories that are kept in RAM."""


class ClientStore:
    """Memories by client; a client that never took part has an empty one.

    A file is named after its client and the round it is of, `CLIENT-ROUND.safetensors`, so that the memories of an
    earlier round are still there while the next one is being written. Without a folder a temporary one is used, when
    it is needed.
    """

    def __init__(self, folder: Path | None = None, budget: int = BUDGET) -> None:
        self._folder, self._budget = folder, budget
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._recent: OrderedDict[int, Memory] = OrderedDict()
        self._bytes = 0
        self._unwritten: set[int] = set()
        self._on_disk: dict[int, int] = {}
        self._outdated: list[Path] = []

    def get(self, client: int) -> Memory:
        """What the client remembers."""
        if client in self._recent:
            self._recent.move_to_end(client)
            return self._recent[client]
        if client not in self._on_disk:
            return Memory()
        memory = _read(self._path(client, self._on_disk[client]), self._on_disk[client])
        self._keep(client, memory)
        return memory

    def put(self, client: int, memory: Memory) -> None:
        """The client remembers this from now on."""
        self._unwritten.add(client)
        self._keep(client, memory)

    def write(self) -> None:
        """Write what has changed since the last time; files of earlier rounds stay until `forget_outdated`."""
        for client in sorted(self._unwritten):
            self._write(client, self._recent[client])
        self._unwritten.clear()

    def forget_outdated(self) -> None:
        """Remove files that a later one has taken the place of."""
        for path in self._outdated:
            path.unlink(missing_ok=True)
        self._outdated.clear()

    def restore(self, last_round: int) -> None:
        """Take up the folder's memories as they were after this round; files of later rounds are removed."""
        for path in self._place().glob("*-*.safetensors"):
            client, round_number = (int(part) for part in path.stem.split("-"))
            if round_number > last_round:
                path.unlink()
            elif round_number >= self._on_disk.get(client, 0):
                self._on_disk[client] = round_number

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
        with replacing(self._path(client, memory.last_round)) as temporary:
            save_file(memory.packed(), temporary)
        if client in self._on_disk and self._on_disk[client] != memory.last_round:
            self._outdated.append(self._path(client, self._on_disk[client]))
        self._on_disk[client] = memory.last_round

    def _path(self, client: int, round_number: int) -> Path:
        return self._place() / f"{client}-{round_number}.safetensors"

    def _place(self) -> Path:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            return self._folder
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="fedtrip-")
        return Path(self._temporary.name)


def _read(path: Path, round_number: int) -> Memory:
    try:
        return Memory.unpacked(load_file(path), round_number)
    except (OSError, SafetensorError) as problem:
        raise UserError(f"the memory of a client, '{path}', cannot be read: {problem}") from None
