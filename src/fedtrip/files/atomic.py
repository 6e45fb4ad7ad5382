"""Files that are either wholly there or not there: written beside, then renamed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedtrip.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; on success it becomes `path` in one step, on failure it vanishes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sync(*paths: Path) -> None:
    """Bring files, and the names in folders, to the disk itself: against a loss of power; kill -9 does not need it."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_LEFTOVER = re.compile(r"\..+\.\d+\.tmp(\..+)?|\.tmp\w{6}")
"""A name of `replacing`, or one that safetensors makes on its own while it writes."""


def is_leftover(path: Path) -> bool:
    """Whether this is a temporary file, left behind by a process that was killed while it wrote."""
    return path.is_file() and _LEFTOVER.fullmatch(path.name) is not None


def check_parent_writable(path: Path, option: str) -> None:
    """Refuse a path below a folder in which nothing can be created."""
    parent = path.absolute()
    if parent.is_file():  # it will be replaced, which is a matter of its folder
        parent = parent.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"{option} '{path}' cannot be written: '{parent}' is not a folder one may write in")


def check_writable(path: Path, suffixes: Collection[str]) -> None:
    """Refuse a file that has another ending or whose folder is not there or not writable."""
    if path.suffix.lower() not in suffixes:
        raise UserError(f"--out '{path}' has an unknown ending; accepted: {', '.join(suffixes)}")
    if path.is_dir():
        raise UserError(f"--out '{path}' is a folder; accepted: a file")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--out '{path}': the folder '{path.parent}' does not exist")
    check_parent_writable(path, "--out")


def file_name(text: str, also: str = "") -> str:
    """The text as a name of a file or folder: letters, digits, `-`, `_` and `.` stay, and what is in `also`."""
    return "".join(c if c.isalnum() or c in "-_." or c in also else "_" for c in text)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
