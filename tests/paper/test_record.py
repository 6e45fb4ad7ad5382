"""The record in results/: its tables and its page are what its runs give."""

from pathlib import Path

import pytest
from tools.reproduction_page import page, record

from fedtrip.archive import Archive
from fedtrip.paper.entry import Findings
from fedtrip.paper.registry import ENTRIES
from fedtrip.paper.reproduction import RUNS

TOP = Path(__file__).parents[2]
RESULTS = TOP / "results"
FROM_RUNS = [name for name in ENTRIES if name not in ("fig2", "fig4")]  # these two need the data


@pytest.fixture(scope="module")
def archive():
    return Archive(RESULTS / RUNS)


@pytest.mark.parametrize("name", FROM_RUNS)
def test_a_table_is_what_the_runs_give(name, archive, tmp_path):
    ENTRIES[name].write(Findings(ENTRIES[name].lines, archive), tmp_path)
    for file in ("table.md", "table.csv", "table.json"):
        assert (tmp_path / file).read_text() == (RESULTS / name / file).read_text(), f"{name}: run `make results`"


def test_the_page_is_made_of_the_tables(archive):
    assert (TOP / "docs" / "reproduction.md").read_text() == page(RESULTS, len(archive)), "run `make results`"
    assert (RESULTS / "README.md").read_text() == record(archive), "run `make results`"


def test_trials_are_paired(archive):
    """Trial s of any two methods in a case differs in nothing but the method: same data, model and clients."""
    for line in ENTRIES["table4"].lines:
        found = Findings([line], archive).runs(line.case, line.label)
        assert list(found) == list(range(len(found))), "seeds without a hole"
        for seed, run in found.items():
            assert run.experiment.seed == seed
            assert run.experiment.method.name == line.method
