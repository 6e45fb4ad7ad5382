"""What an entry lacks, case by case: runs that are not in the archive, and data that are not on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedtrip.data.catalog import known_set
from fedtrip.data.locate import find_set, search_folders
from fedtrip.paper.archive import Archive
from fedtrip.paper.entry import Line, unique
from fedtrip.paper.reproduction import work_folder
from fedtrip.runs.folder import METRICS


@dataclass
class CaseState:
    """How much of a case is there."""

    case: str
    wanted: int = 0
    missing: dict[str, list[int]] = field(default_factory=dict)
    """label of a line → seeds whose run is not finished"""
    begun: int = 0
    """of these, how many have been begun"""

    @property
    def lacking(self) -> int:
        """Runs that are not finished."""
        return sum(map(len, self.missing.values()))


@dataclass(frozen=True)
class DataState:
    """Where a data set is, or where it was looked for."""

    name: str
    folder: Path | None
    looked_in: tuple[Path, ...]
    is_here: bool
    download_bytes: int
    """0 if it must be brought by hand"""


def state_of_cases(lines: Sequence[Line], trials: int, archive: Archive, out: Path) -> list[CaseState]:
    """Every case in the entry's order, with what is missing of each of its lines."""
    cases = {case: CaseState(case) for case in unique(line.case for line in lines)}
    for line in lines:
        state = cases[line.case]
        state.wanted += trials
        experiments = {seed: line.experiment.but(seed=seed) for seed in range(trials)}
        lacking = [seed for seed, experiment in experiments.items() if archive.find(experiment) is None]
        if lacking:
            state.missing[line.label] = lacking
        state.begun += sum((work_folder(out, experiments[seed]) / METRICS).is_file() for seed in lacking)
    return list(cases.values())


def state_of_data(lines: Sequence[Line], data_dir: Path | None) -> list[DataState]:
    """Every data set that the lines need."""
    states = []
    for name in unique(line.experiment.dataset for line in lines):
        known = known_set(name)
        folder = find_set(known, data_dir)
        size = sum(download.size for download in known.offered)
        looked_in = tuple(search_folders(known, data_dir)) if known.files else ()
        states.append(DataState(name, folder, looked_in, folder is not None or not known.files, size))
    return states


def span(seeds: Sequence[int]) -> str:
    """Seeds as one writes them: `0-4, 7`."""
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    return ", ".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in spans)
