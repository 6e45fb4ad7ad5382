"""A report's parts: the variants that were run on the same data, model and partition, and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fedtrip.experiment import Experiment
from fedtrip.history import History
from fedtrip.methods import METHODS
from fedtrip.variants import Row, Variant, summarise

NOT_A_SETTING = {"schema_version", "method", "seed", "snapshot", "stop_at_target"}
"""Fields that do not keep two variants from being compared by their rounds to target."""


@dataclass(frozen=True)
class Part:
    """Variants that belong into one table."""

    title: str
    variants: list[Variant]
    histories: dict[str, Sequence[History]]
    rows: list[Row]

    @property
    def target(self) -> float | None:
        """The target, if all variants have the same."""
        targets = {row.target for row in self.rows}
        return targets.pop() if len(targets) == 1 else None


def make_parts(histories: Mapping[str, Sequence[History]]) -> list[Part]:
    """One part for each combination of data set, model and partition, in the order they come."""
    titles: dict[str, dict[str, Sequence[History]]] = {}
    for label, runs in histories.items():
        if runs:
            titles.setdefault(title_of(runs[0].experiment), {})[label] = runs
    parts = []
    for title, some in titles.items():
        momenta = _momenta_that_matter(some)
        variants = [Variant(label, runs[0].experiment, _setting(runs, momenta[label])) for label, runs in some.items()]
        parts.append(Part(title, variants, some, summarise(variants, some)))
    return parts


def title_of(experiment: Experiment) -> str:
    """What was run on what."""
    return f"{without_folders(experiment.dataset)}, {without_folders(experiment.model)}, {experiment.partition}"


def without_folders(name: str) -> str:
    """A user's own file without the folders it lies in, a Python object by the beginning of its digest."""
    kind, colon, rest = name.partition(":")
    if colon and kind in ("npz", "idx"):
        return f"{kind}:{PurePath(rest).name}"
    return f"{kind}:{rest[:12]}…" if colon and kind == "python" else name


def _setting(runs: Sequence[History], momentum: float | None) -> tuple[tuple[str, object], ...]:
    """Everything beside the method in which two variants must agree for a speed-up to mean something."""
    experiment = runs[0].experiment
    fields = {name: getattr(experiment, name) for name in Experiment.model_fields if name not in NOT_A_SETTING}
    seeds = tuple(run.experiment.seed for run in runs)
    return tuple(sorted({**fields, "momentum": momentum, "seeds": seeds}.items()))


def _momenta_that_matter(histories: Mapping[str, Sequence[History]]) -> dict[str, float | None]:
    """Each variant's momentum where it is a setting; None where it is only the method's own default."""
    chosen = {label: (runs[0].experiment.method.name, runs[0].experiment.momentum) for label, runs in histories.items()}
    different = set(chosen.values())
    swept = len({name for name, _ in different}) < len(different)
    if not swept and len({momentum for _, momentum in different}) == 1:
        return dict.fromkeys(chosen)

    def is_default(name: str, momentum: float | None) -> bool:
        return not swept and name in METHODS and momentum == METHODS[name].momentum

    return {label: None if is_default(*choice) else choice[1] for label, choice in chosen.items()}
