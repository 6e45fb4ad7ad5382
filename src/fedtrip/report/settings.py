"""What was run: the fields that all variants share, and those in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedtrip.experiment.description import Experiment
from fedtrip.experiment.names import without_folders
from fedtrip.report.parts import Part
from fedtrip.runs.history import History

NOT_SHOWN = ("schema_version", "method", "seed")
"""The method and the seeds have lines of their own."""


def shared_settings(part: Part) -> dict[str, str]:
    """Field → value, for the fields in which all runs of the part agree."""
    runs = _runs(part)
    seeds = sorted({run.experiment.seed for run in runs})
    shared = {name: _text(name, runs[0].experiment) for name in Experiment.model_fields if name not in _differing(runs)}
    return {**shared, "seeds": _span(seeds)}


def own_settings(part: Part) -> dict[str, dict[str, str]]:
    """Variant → method, its options, and the fields in which the variants differ."""
    differing = _differing(_runs(part))
    own = {}
    for label, runs in part.histories.items():
        experiment = runs[0].experiment
        options = {name: _plain(value) for name, value in experiment.method.options.items()}
        fields = {name: _text(name, experiment) for name in differing if name not in NOT_SHOWN}
        own[label] = {"method": experiment.method.name, **options, **fields}
    return own


def _runs(part: Part) -> Sequence[History]:
    return [run for runs in part.histories.values() for run in runs]


def _differing(runs: Sequence[History]) -> list[str]:
    """The fields that are not shown with the shared ones."""
    first = runs[0].experiment
    return [
        name
        for name in Experiment.model_fields
        if name in NOT_SHOWN or any(getattr(run.experiment, name) != getattr(first, name) for run in runs)
    ]


def _text(name: str, experiment: Experiment) -> str:
    value = getattr(experiment, name)
    return without_folders(value) if name in ("dataset", "model") else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_plain, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _span(seeds: Sequence[int]) -> str:
    whole = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))
