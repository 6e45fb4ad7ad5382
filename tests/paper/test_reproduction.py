"""Reproducing: each run once, going on after an interruption, and the same table as without one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedtrip import Experiment, UserError
from fedtrip.paper.archive import Archive
from fedtrip.paper.entry import Entry, Findings, Line
from fedtrip.paper.page import Page
from fedtrip.paper.registry import ENTRIES
from fedtrip.paper.reproduction import RUNS, WORK, plan, run_missing, select, write_entry

SMALL = {"rounds": 4, "samples_per_client": 50}


def small_lines():
    return tuple(
        Line(case, method, Experiment(method=method, partition=partition, **SMALL))
        for case, partition in (("first", "dirichlet:0.5"), ("second", "iid"))
        for method in ("fedtrip", "fedavg")
    )


def write_accuracies(findings, folder):
    page = Page("small", ["case", "line", "seed", "accuracy"])
    for line in findings.lines:
        for seed, run in findings.runs(line.case, line.label).items():
            page.records.append({"case": line.case, "line": line.label, "seed": seed, "end": run.final_accuracy})
    page.rows = [[str(value) for value in record.values()] for record in page.records]
    page.write(folder)


def small_entry():
    return Entry("small", "a small one", write_accuracies, small_lines(), trials=2)


def models(archive):
    return {(r.experiment.partition, r.experiment.method.name, r.experiment.seed): r.model_sha256 for r in archive}


def reproduce(out):
    archive = Archive(out / RUNS)
    planned = plan(small_lines(), 2, archive)
    run_missing(planned, archive, out, workers=2)
    write_entry(small_entry(), archive, out)
    return planned, archive


def test_every_run_is_done_once(tmp_path):
    planned, archive = reproduce(tmp_path)
    assert len(planned.wanted) == len(planned.missing) == len(archive) == 8
    assert not (tmp_path / WORK).exists()
    again = plan(small_lines(), 2, Archive(tmp_path / RUNS))
    assert (len(again.wanted), again.missing) == (8, ())
    more = plan(small_lines(), 3, archive)
    assert [experiment.seed for _, experiment in more.missing] == [2] * 4


def test_lines_that_need_the_same_run_share_it(tmp_path):
    experiment = Experiment(method="fedavg", **SMALL)
    lines = [Line("a", "FedAvg", experiment), Line("b", "FedAvg", experiment.but(target=0.3, clients=10))]
    assert len(plan(lines, 2, Archive(tmp_path)).wanted) == 2


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_reproduction import reproduce
reproduce(Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_killed_again_and_again_it_ends_like_one_that_never_was(tmp_path):
    _, whole = reproduce(tmp_path / "whole")
    out, kills = tmp_path / "killed", 0
    for pause in (2.0, 2.4, 2.8, 3.2, 3.6, 120.0):
        command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(out)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            assert process.wait(pause) == 0
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            time.sleep(0.2)
    assert kills > 0
    assert models(Archive(out / RUNS)) == models(whole)
    for name in ("table.md", "table.csv", "table.json"):
        assert (out / "small" / name).read_bytes() == (tmp_path / "whole" / "small" / name).read_bytes()


def test_cases_and_methods_are_selected_by_name():
    entry = ENTRIES["table4"]
    lines = select(entry, ["cnn-mnist"], ["fedavg", "fedtrip"])
    assert [(line.case, line.method) for line in lines] == [("cnn-mnist", "fedtrip"), ("cnn-mnist", "fedavg")]
    with pytest.raises(UserError, match="--case 'cnn-mnits' is unknown; did you mean 'cnn-mnist'"):
        select(entry, ["cnn-mnits"])
    with pytest.raises(UserError, match="--methods 'fedsgd' is unknown"):
        select(entry, [], ["fedsgd"])
    assert {line.label for line in select(ENTRIES["xi"], ["cnn-mnist"], ["annealed", "FedAvg"])} == {
        "annealed",
        "FedAvg",
    }


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.lines])
def test_an_entry_without_any_run_can_be_written(name, tmp_path):
    """Whoever has run one case sees that one, and what is missing as missing."""
    entry = ENTRIES[name]
    entry.write(Findings(entry.lines, Archive(tmp_path / RUNS)), tmp_path)
    assert (tmp_path / "table.md").read_text().startswith("# ")


def test_the_runs_are_the_papers():
    """4 of 10 clients unless it says otherwise, 100 rounds, its data sets, and FedTrip as its analysis has it."""
    lines = {name: entry.lines for name, entry in ENTRIES.items()}
    assert {(line.experiment.clients, line.experiment.per_round) for line in lines["table6"]} == {(50, 4)}
    assert {line.experiment.rounds for line in lines["table4"]} == {100}
    assert {line.experiment.local_epochs for line in lines["table7"]} == {5, 10}
    assert {line.experiment.partition for line in lines["fig6"]} == {
        "dirichlet:0.1", "dirichlet:0.5", "orthogonal:5", "orthogonal:10"
    }  # fmt: skip
    for name in ("table4", "table6", "table7", "fig5", "fig6", "fig7"):
        for line in (line for line in lines[name] if line.method == "fedtrip"):
            options = line.experiment.method.options
            assert set(options) <= ({"mu"} if name == "fig7" else set()), "the paper's μ, whatever it leads to"
            assert not line.experiment.keep_optimizer_state
    assert lines["table4"] == lines["table5"]
