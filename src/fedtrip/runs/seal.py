"""Digests in a finished run's summary, of its files and of the summary itself, and their check by every reader.

They find damage, not forgery: whoever can write the folder can write digests that fit. `files_sha256` is of the files
as they lie there, and metrics.jsonl holds times: to compare two runs is what `model_sha256` is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.vectors import state_sha256

FILES, ITSELF = "files_sha256", "summary_sha256"
"""The summary's entries: a table of the other files, and the digest of all its other entries."""
ACCEPTED = "accepted: the file as the run wrote it, or a new run"


def sealed(run: Path, summary: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The summary with the digests of these files, which are complete, and of itself."""
    whole = {**summary, FILES: {name: _of_file(run / name) for name in names}}
    return {**whole, ITSELF: _of_entries(whole)}


def check_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Refuse a summary that is not what was written. One of an earlier version, without digests, is taken as it is."""
    if FILES not in summary and ITSELF not in summary:
        return
    rest = {name: value for name, value in summary.items() if name != ITSELF}
    if not isinstance(summary.get(FILES), dict) or summary.get(ITSELF) != _of_entries(rest):
        raise UserError(f"'{path}' is damaged: its entries do not have the SHA-256 that it says; {ACCEPTED}")


def check_files(run: Path, summary: Mapping[str, Any]) -> None:
    """Refuse files that are not what the summary says; of a summary without digests nothing is known."""
    for name, digest in summary.get(FILES, {}).items():
        if (found := _of_file(run / name)) != digest:
            raise UserError(
                f"'{run / name}' is damaged: its SHA-256 is {found}, summary.json says {digest}; {ACCEPTED}"
            )


def check_model(path: Path, state: Mapping[str, Tensor], summary: Mapping[str, Any]) -> None:
    """Refuse a model whose digest is not the summary's, which every version has written."""
    if (found := state_sha256(state)) != (digest := summary.get("model_sha256")):
        raise UserError(
            f"'{path}' is damaged: the SHA-256 of the model is {found}, summary.json says {digest}; {ACCEPTED}"
        )


def _of_file(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        raise UserError(f"'{path}' cannot be read: {problem.strerror or problem}") from None


def _of_entries(entries: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
