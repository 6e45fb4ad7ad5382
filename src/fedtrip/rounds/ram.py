"""How much memory the clients' memories may take: a share of what the machine has left, or what the user says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from fedtrip.errors import UserError

SHARE = 4
"""The memories take at most one part in so many of the memory that is available when a run begins."""
LEAST, UNKNOWN = 64 * 2**20, 256 * 2**20
"""Bytes that they always may take, and where the system does not tell what is available."""
MEMINFO, CGROUP, OWN_CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?) *(?P<unit>[kmg]i?b)?", re.IGNORECASE)
_UNITS = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def read_size(text: int | str, called: str) -> int:
    """Bytes, from a number or a text such as `512MiB`."""
    named = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if named is not None:
        size = float(named["number"]) * _UNITS.get((named["unit"] or "").lower(), 1)
        if 1 <= size < math.inf:
            return int(size)
    elif isinstance(text, int) and not isinstance(text, bool) and text >= 1:
        return text
    raise UserError(f"{called} is {text!r}; accepted: bytes, or a number with KiB, MiB, GiB, kB, MB or GB")


def budget(sharing: int = 1) -> int:
    """What the memories of a run may take where nobody says it, if so many runs share the machine."""
    known = [size for size in (_available(), *_left_in_cgroups()) if size is not None]
    return max(LEAST, min(known) // (SHARE * sharing)) if known else UNKNOWN


def _available() -> int | None:
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB", MEMINFO.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def _left_in_cgroups() -> Iterator[int]:
    """What the limits of a container or a batch system's job leave: those of its group and of all above it."""
    try:
        own = OWN_CGROUP.read_text(encoding="utf-8").strip().rpartition("::")[2].lstrip("/")
    except OSError:
        own = ""
    inner = CGROUP / own
    for folder in {CGROUP, inner, *(parent for parent in inner.parents if parent.is_relative_to(CGROUP))}:
        try:
            most, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
            if most != "max":
                yield max(0, int(most) - int(used))
        except (OSError, ValueError):
            continue
