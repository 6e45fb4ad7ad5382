"""How much memory a run takes at its peak, all of its processes together."""

from __future__ import annotations

import os
import threading
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.02


class Watch:
    """Looks again and again how much memory this process and its children take together.

    Each process' "proportional set size" is summed, so that a page that three of them share counts once.
    """

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            pids = (os.getpid(), *_children(os.getpid()))
            self.most = max(self.most, sum(_proportional_size(pid) for pid in pids))


def _children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:  # the thread has just ended
            continue
    return found


def _proportional_size(pid: int) -> int:
    """Bytes; 0 for a process that has just ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
