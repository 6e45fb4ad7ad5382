"""How much a file may ask for before it is read: a few bytes on disk can promise any amount of memory."""

from __future__ import annotations

import os
from pathlib import Path

from fedtrip.errors import UserError

LARGEST_ARRAY = 16 * 2**30


def check_size(path: Path | str, what: str, size: int) -> None:
    """Refuse a promised size in bytes beyond 16 GiB, or beyond this machine's memory where that is less."""
    accepted = min(LARGEST_ARRAY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if size > accepted:
        raise UserError(f"{path}: {what} would take {size:,} bytes; at most {accepted:,} are accepted here")
