"""Named readings of the methods, which stay what they are when our defaults change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Preset = Literal["paper"]
PRESETS: dict[Preset, dict[str, dict[str, Any]]] = {
    "paper": {"fedtrip": {"xi": "inverse-gap", "penalty": "squared", "first": "prox", "reach": 0.0}},
}
"""Preset → method → its options. Methods that are not named have one reading only, their default."""


def preset_options(preset: Preset | None, method: str) -> dict[str, Any]:
    """The options that the preset gives a method."""
    return {} if preset is None else dict(PRESETS[preset].get(method, {}))


def with_preset(
    preset: Preset | None, methods: Sequence[str], sweeps: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """The sweeps of a comparison with the preset's options added, where the sweeps do not name them."""
    added = {
        f"{method}.{option}": [value]
        for method in methods
        for option, value in preset_options(preset, method).items()
        if f"{method}.{option}" not in sweeps and f"method.{option}" not in sweeps
    }
    return {**added, **sweeps}
