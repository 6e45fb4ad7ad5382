"""Where the clients' memories live between rounds: only clients that took part cost anything."""

from __future__ import annotations

from fedtrip.methods.base import Memory


class ClientStore:
    """Memories by client; a client that never took part has an empty one."""

    def __init__(self) -> None:
        self._memories: dict[int, Memory] = {}

    def get(self, client: int) -> Memory:
        return self._memories.get(client) or Memory()

    def put(self, client: int, memory: Memory) -> None:
        self._memories[client] = memory
