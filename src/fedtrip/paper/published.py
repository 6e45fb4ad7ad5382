"""The published numbers: read from `published.toml`, the only place they are written in."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def published() -> dict[str, Any]:
    """Everything the paper prints that is used here, by table."""
    return tomllib.loads(resources.files("fedtrip.paper").joinpath("published.toml").read_text(encoding="utf-8"))


def slip(place: str) -> dict[str, str] | None:
    """A known slip of the paper at this place: what is printed and what its own numbers give."""
    return next((entry for entry in published()["slips"] if entry["place"] == place), None)
