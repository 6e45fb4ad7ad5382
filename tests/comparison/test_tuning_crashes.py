"""Tunings that are killed with SIGKILL, at any moment and in any rung: they go on, and end with the same bytes."""

import json
import os
import signal
import time

import pytest
from tests.runs.test_resume import crashed
from tests.test_interruption import end, start

SMALL = {"rounds": 9, "clients": 4, "per_round": 2, "samples_per_client": 12, "batch_size": 4, "target": 0.8}
CASE = {"experiment": SMALL, "tune": {"methods": ["scaffold"], "budget": 30, "tuning_trials": 1, "trials": 1}}


@pytest.mark.parametrize("every", [60, pytest.param(7, marks=pytest.mark.cross)])  # each kill is a process
def test_a_tuning_killed_at_its_moments_has_the_same_result(every, tmp_path):
    """Before and after files are renamed, in the middle of a line, between two rungs, in the verdict."""
    (answer,) = crashed([{**CASE, "every": every, "chains": every == 7}], tmp_path)
    assert answer["wrong"] == []
    assert answer["kills"] >= 3
    assert "after tuning.json" in answer["moments"]
    assert "before comparison.json" in answer["moments"]


COMMAND = ["--methods", "fedavg,scaffold", "--budget", "30", "--tuning-trials", "1", "--trials", "1", "--rounds", "9"]
COMMAND += ["--clients", "4", "--per-round", "2", "--samples-per-client", "20", "--quiet", "--json"]


def rungs_done(out):
    try:
        return len(json.loads((out / "tuning.json").read_text())["standings"])
    except FileNotFoundError:
        return 0


MOMENTS = {
    "first rung": lambda out: any(out.glob("tuning/*/*/*/metrics.jsonl")),
    "second rung": lambda out: rungs_done(out) == 1,
    "verdict": lambda out: any(out.glob("verdict/runs/*/*/metrics.jsonl")),
}


def without_command(out):
    found = json.loads((out / "tuning.json").read_text())
    return json.dumps({name: value for name, value in found.items() if name != "command"})


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_command_that_is_killed_goes_on(moment, fedtrip, here):
    out = here / "cut"
    process = start(here, "tune", *COMMAND, "--workers", 2, "--resume", "--out", out)
    until = time.monotonic() + 300
    while not MOMENTS[moment](out):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)  # the parent alone: its workers end with it
    end(process)
    assert not (out / "tuning.md").exists()
    assert fedtrip("tune", *COMMAND, "--workers", 1, "--resume", "--out", out).code == 0
    assert fedtrip("tune", *COMMAND, "--workers", 1, "--out", "whole").code == 0
    assert without_command(out) == without_command(here / "whole")
    assert (out / "tuning.md").read_bytes() == (here / "whole/tuning.md").read_bytes()
    assert (out / "verdict/table.json").read_bytes() == (here / "whole/verdict/table.json").read_bytes()
