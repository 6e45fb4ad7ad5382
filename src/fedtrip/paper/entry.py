"""What a table or figure of the paper is made of: the runs it needs, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from fedtrip.experiment.description import Experiment
from fedtrip.paper.archive import Archive
from fedtrip.runs.history import History

OnStep = Callable[[str], None]
MOST_TRIALS = 100
"""Seeds below this one are looked for in the archive."""


@dataclass(frozen=True)
class Line:
    """One setting of which trials are run: the experiment's seed is each trial's own."""

    case: str
    """a cell, row or panel of the entry; what `--case` selects by"""
    label: str
    """what is compared within the case, mostly a method"""
    experiment: Experiment

    @property
    def method(self) -> str:
        return self.experiment.method.name


class Findings:
    """The finished trials of an entry's lines."""

    def __init__(
        self, lines: Sequence[Line], archive: Archive, data_dir: Path | None = None, on_step: OnStep | None = None
    ) -> None:
        self.lines = lines
        self.archive = archive
        self.data_dir = data_dir
        """where the data sets are, for entries that look at data or train models of their own"""
        self.step: OnStep = on_step or (lambda _: None)
        """to be called after each step of the entry's own work, with a short note"""
        self._runs: dict[tuple[str, str], dict[int, History]] = {}
        for line in lines:
            found = {seed: archive.find(line.experiment.but(seed=seed)) for seed in range(MOST_TRIALS)}
            self._runs[line.case, line.label] = {seed: run for seed, run in found.items() if run is not None}

    def on_common_seeds(self) -> Findings:
        """The same, each case only with the seeds that all of its lines have which have any: means can be compared."""
        shared = {case: set.intersection(*(set(self.runs(case, x)) for x in self.labels(case))) for case in self.cases}
        common = copy(self)
        common._runs = {
            (case, label): {seed: run for seed, run in runs.items() if seed in shared[case]}
            for (case, label), runs in self._runs.items()
        }
        return common

    @property
    def cases(self) -> list[str]:
        """The cases of which there is at least one finished run, in the entry's order."""
        return [case for case in unique(line.case for line in self.lines) if self.labels(case)]

    def labels(self, case: str) -> list[str]:
        """What has finished runs in this case."""
        return [line.label for line in self.lines if line.case == case and self._runs[case, line.label]]

    def runs(self, case: str, label: str) -> Mapping[int, History]:
        """The finished trials by seed."""
        return self._runs.get((case, label), {})

    def paired(self, case: str, first: str, second: str) -> tuple[list[History], list[History]]:
        """The trials of two lines on the seeds that both have finished."""
        one, other = self.runs(case, first), self.runs(case, second)
        seeds = sorted(one.keys() & other.keys())
        return [one[seed] for seed in seeds], [other[seed] for seed in seeds]


@dataclass(frozen=True)
class OwnWork:
    """What an entry does itself, beside the runs of its lines."""

    text: str
    steps: int = 0
    """those that take long enough to be counted by a progress bar"""


@dataclass(frozen=True)
class Entry:
    """One table or figure."""

    name: str
    title: str
    write: Callable[[Findings, Path], None]
    """writes the files of the entry into a folder"""
    lines: tuple[Line, ...] = ()
    trials: int = 10
    """as many as the paper's"""
    own_work: OwnWork = OwnWork("no training, computed at once")

    @property
    def cases(self) -> list[str]:
        return unique(line.case for line in self.lines)


def unique(names: Iterable[str]) -> list[str]:
    """Each once, in the order of first appearance."""
    return list(dict.fromkeys(names))
