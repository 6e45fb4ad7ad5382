"""What may be compared is decided in one place: the table, the report's table and its words never disagree."""

from __future__ import annotations

import html
import json
import re

import pytest

from fedtrip import Experiment, compare
from fedtrip.report.parts import make_parts
from fedtrip.report.words import in_words

SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 30, "target": 0.1}
OWN = """
from fedtrip.methods.fedavg import FedAvg


class Plain(FedAvg):
    momentum = 0.0
"""


@pytest.fixture
def own(here, monkeypatch):
    """A method of one's own whose momentum is not FedAvg's."""
    (here / "own_without_momentum.py").write_text(OWN)
    monkeypatch.syspath_prepend(here)
    return "own_without_momentum:Plain"


def speedups_of_the_page(folder):
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    body = re.search(r'id="table-0".*?<tbody>(.*?)</tbody>', page, re.DOTALL)[1]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[2] for row in body.split("</tr>") if "<td" in row]


def speedups_of_the_table(folder):
    lines = [line for line in (folder / "table.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [line.split(" | ")[3] for line in lines[2:]]


@pytest.mark.parametrize(
    "sweeps", [{}, {"momentum": [0.5]}, {"momentum": [0.0, 0.9]}, {"stop_at_target": [False, True]}, {"lr": [0.1, 0.2]}]
)
def test_the_report_compares_what_the_table_compares(own, here, sweeps):
    compare(Experiment(**SMALL), methods=[own, "fedavg", "slowmo"], sweeps=sweeps, trials=2, workers=1, out=here / "c")
    assert speedups_of_the_page(here / "c") == speedups_of_the_table(here / "c")
    compared = [row["speedup"] is not None for row in json.loads((here / "c" / "table.json").read_text())]
    swept = len(next(iter(sweeps.values()), [None]))
    assert compared == [True] * swept + [False] * swept + [True] * swept, "all but fedavg itself"
    if swept == 1:
        assert "are not compared" not in (here / "c" / "report.html").read_text(encoding="utf-8")


def test_a_class_that_is_not_here_is_compared_by_what_its_runs_say(make_runs):
    runs = {"mine": make_runs("not_here:Mine", [8, 9], momentum=0.0), "fedavg": make_runs("fedavg", [16, 17])}
    (part,) = make_parts(runs)
    assert part.rows[0].speedup is not None
    assert "not compared" not in " ".join(in_words(part, None).sentences)


def test_its_momentum_is_a_setting_where_it_was_swept(make_runs):
    runs = {
        "mine 0": make_runs("not_here:Mine", [8, 9], momentum=0.0),
        "mine 0.9": make_runs("not_here:Mine", [8, 9], momentum=0.9),
        "fedavg": make_runs("fedavg", [16, 17]),
    }
    (part,) = make_parts(runs)
    assert [row.speedup is not None for row in part.rows] == [False, True, False]
