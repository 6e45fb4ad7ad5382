"""A report's parts: the variants that were run on the same data, model and partition, and their table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fedtrip.comparison.baseline import BASELINE, baselines_of, variant_settings
from fedtrip.comparison.comparable import Setting
from fedtrip.comparison.variants import Row, Variant, same_seeds, summarise
from fedtrip.experiment.names import title_of
from fedtrip.runs.history import History
from fedtrip.tasks.interface import Goal


@dataclass(frozen=True)
class Part:
    """Variants that belong into one table."""

    title: str
    histories: dict[str, Sequence[History]]
    rows: list[Row]
    settings: dict[str, Setting]
    baselines: Sequence[str] = ()
    """the variants that speed-ups are over"""

    def comparable(self, one: str, other: str) -> bool:
        """Whether a ratio of the rounds of two variants means something."""
        return self.settings[one] == self.settings[other] and same_seeds(self.histories[one], self.histories[other])

    @property
    def goal(self) -> Goal:
        """The score that all of them are about: one part has one task."""
        return self.rows[0].goal

    @property
    def target(self) -> float | None:
        """The target, if all variants have the same."""
        targets = {row.target for row in self.rows}
        return targets.pop() if len(targets) == 1 else None


def make_parts(
    histories: Mapping[str, Sequence[History]],
    tuned: Mapping[str, Collection[str]] | None = None,
    baseline: str = BASELINE,
) -> list[Part]:
    """One part for each combination of data set, model, partition, task and goal, in the order they come.

    Variants that were tuned have a part of their own; `tuned` are the fields that were chosen for them.
    """
    own = tuned or {}
    titles: dict[str, dict[str, Sequence[History]]] = {}
    for label, runs in histories.items():
        if runs:
            title = title_of(runs[0].experiment) + (", tuned" if label in own else "")
            titles.setdefault(title, {})[label] = runs
    parts = []
    for title, some in titles.items():
        experiments = {label: runs[0].experiment for label, runs in some.items()}
        variants = [
            Variant(label, one, tuned=frozenset(own[label]) if label in own else None)
            for label, one in experiments.items()
        ]
        rows = summarise(variants, some, baseline=baseline)
        parts.append(Part(title, some, rows, variant_settings(variants), baselines_of(variants, baseline)))
    return parts
