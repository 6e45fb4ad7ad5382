"""Somebody else's run with a task of its author's own: looking at it imports nothing, evaluating it asks first."""

import sys

import pytest

CODE = """
from dataclasses import dataclass
from pathlib import Path
from fedtrip.tasks.classification import Classification

with open(Path(__file__).with_name("imported.txt"), "a") as file:
    file.write("x")

@dataclass(frozen=True)
class Mine(Classification):
    pass
"""


@pytest.fixture
def stored(fedtrip, here, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (here / "foreign_task.py").write_text(CODE)
    ended = fedtrip("run", "--task", "foreign_task:Mine", "--rounds", 2, "--workers", 1, "-q", "--out", "run")
    assert ended.code == 0, ended.err
    sys.modules.pop("foreign_task")
    (here / "imported.txt").unlink()
    yield here
    sys.modules.pop("foreign_task", None)


def test_a_report_never_runs_it_and_evaluate_wants_to_be_told(fedtrip, stored):
    assert fedtrip("report", "run").code == 0
    page = (stored / "run/report.html").read_text()
    assert "the run names code of its own, task &#39;foreign_task:Mine&#39;, which a report never runs" in page
    refused = fedtrip("evaluate", "run")
    assert refused.code == 2
    assert "names code, task 'foreign_task:Mine', which is not run unasked; accepted: --trust" in refused.err
    assert not (stored / "imported.txt").exists()
    trusted = fedtrip("evaluate", "run", "--trust")
    assert trusted.code == 0
    assert "runs code: task 'foreign_task:Mine'" in trusted.err
