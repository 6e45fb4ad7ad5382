"""Ctrl-C, in real processes: after the round, or at once; what was done is kept, and nobody is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMALL = ["--clients", "3", "--per-round", "2", "--samples-per-client", "20", "--quiet", "--json"]
MANY = ["--rounds", "4000", "--eval-every", "50"]


def start(folder, *arguments):
    """A command in a process group of its own, as a terminal has it."""
    return subprocess.Popen(
        [sys.executable, "-m", "fedtrip", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also where pytest is a background job
    )


def wait_for_rounds(*runs, at_least=3):
    """Until each of these runs has written some lines."""
    until = time.monotonic() + 300
    for run in runs:
        while not (run / "metrics.jsonl").is_file() or (run / "metrics.jsonl").read_text().count("\n") < at_least:
            assert time.monotonic() < until, "no round was done"
            time.sleep(0.02)


def ctrl_c(process):
    """To the whole group, as the terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def left_of_the_group(process):
    """Whether a process of the group is still there."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def end(process):
    """The messages of a process that is about to end, and that all of its group ended with it."""
    out, err = process.communicate(timeout=300)
    until = time.monotonic() + 10
    while left_of_the_group(process) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left_of_the_group(process)
    assert "Traceback" not in err
    return out, err


def rounds_of(run):
    return [json.loads(line)["round"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_ctrl_c_ends_a_run_after_its_round_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "my run"
    process = start(tmp_path, "run", *SMALL, *MANY, "--workers", 2, "--checkpoint-every", 1000, "--out", out)
    wait_for_rounds(out)
    ctrl_c(process)
    stdout, stderr = end(process)
    assert (process.returncode, stdout) == (130, "")
    assert "ends after the current round; Ctrl-C again ends at once" in stderr
    done = len(rounds_of(out))
    assert f"interrupted after round {done}; to go on: fedtrip run --resume '{out}'" in stderr
    assert (out / f"checkpoint/server-{done}.safetensors").is_file()
    assert not (out / "summary.json").exists()
    again = start(tmp_path, "run", *SMALL, "--resume", out, "--workers", 1)
    wait_for_rounds(out, at_least=done + 1)
    ctrl_c(again)
    end(again)
    assert rounds_of(out) == list(range(1, len(rounds_of(out)) + 1))
    assert len(rounds_of(out)) > done


SLOW = """
import time
from dataclasses import dataclass
import fedtrip

@dataclass(frozen=True)
class Slow(fedtrip.Method):
    def client(self, received, memory, local):
        open("asleep", "w").close()
        time.sleep(3600)
"""


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    process = start(tmp_path, "run", *SMALL, "--method", "slow:Slow", "--workers", 1, "--out", "run")
    wait_for_rounds(tmp_path / "run", at_least=0)
    while not (tmp_path / "asleep").exists():
        time.sleep(0.02)
    ctrl_c(process)
    with pytest.raises(subprocess.TimeoutExpired):  # a round takes an hour
        process.wait(timeout=2)
    ctrl_c(process)
    _, stderr = end(process)
    assert process.returncode == 130
    assert "interrupted after round 0; to go on: " in stderr


def tables(folder):
    return {name: (folder / name).read_bytes() for name in ("table.md", "table.csv", "table.json")}


COMPARISON = ["--methods", "fedtrip,fedavg", "--trials", "2", "--rounds", "400", "--clients", "3", "--per-round", "2"]
COMPARISON += ["--samples-per-client", "20", "--eval-every", "40", "--quiet", "--json"]


@pytest.mark.parametrize("by", ["ctrl-c", pytest.param("kill", marks=pytest.mark.slow)])
def test_a_comparison_goes_on_and_its_tables_are_the_same(by, fedtrip, here, tmp_path):
    out = here / "cut"
    process = start(tmp_path, "compare", *COMPARISON, "--workers", 2, "--resume", "--out", out)
    wait_for_rounds(out / "runs/fedtrip/0", out / "runs/fedavg/0")
    if by == "kill":
        os.kill(process.pid, signal.SIGKILL)  # the parent alone: its workers end with it
    else:
        ctrl_c(process)
    _, stderr = end(process)
    if by == "ctrl-c":
        assert process.returncode == 130
        assert f"interrupted; to go on: the same command with --resume --out {out}" in stderr
    assert not (out / "table.md").exists()
    finished = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/summary.json")}
    begun = {path.parent: len(rounds_of(path.parent)) for path in out.glob("runs/*/*/metrics.jsonl")}
    assert begun
    assert fedtrip("compare", *COMPARISON, "--workers", 1, "--resume", "--out", out).code == 0
    assert fedtrip("compare", *COMPARISON, "--workers", 1, "--out", "whole").code == 0
    assert tables(out) == tables(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
    for other in (["--trials", "3"], ["--rounds", "61"], ["--methods", "fedavg"]):
        refused = fedtrip("compare", *COMPARISON, *other, "--resume", "--out", out)
        assert refused.code == 2
        assert "holds another comparison: " in refused.err
    assert tables(out) == tables(tmp_path / "whole")


def test_resuming_a_folder_that_is_no_run(fedtrip, here):
    (here / "file").write_text("x")
    (here / "empty").mkdir()
    for name in ("file", "empty", "absent"):
        ended = fedtrip("run", "--resume", name)
        assert (ended.code, ended.out) == (2, "")
        assert (
            f"'{name}' is not a run: it has no experiment.toml; accepted: a folder that `fedtrip run` wrote"
            in ended.err
        )


@pytest.mark.usefixtures("here")
def test_resuming_a_folder_with_other_options_is_refused(fedtrip):
    small = ("--rounds", 2, "--clients", 2, "--per-round", 1, "--samples-per-client", 20, "--workers", 1, "-q")
    assert fedtrip("run", *small, "--out", "run").code == 0
    assert json.loads(fedtrip("run", "--resume", "run", "-q", "--json").out)["rounds"] == 2
    ended = fedtrip("run", "--resume", "run", "--rounds", 3)
    assert ended.code == 2
    assert "holds another experiment: its rounds is 2, here it is 3" in ended.err
    assert Path("run/summary.json").is_file()


# ---- SIGTERM and SIGHUP

ENDINGS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]
LATER_SLOW = """
import time
from dataclasses import dataclass
from fedtrip.methods import METHODS

@dataclass(frozen=True)
class Slow(METHODS["fedtrip"]):
    def client(self, received, memory, local):
        if memory.last_round is not None and memory.last_round >= 2:
            open("asleep", "w").close()
            time.sleep(3600)
        return super().client(received, memory, local)
"""
TWO = ["--clients", "2", "--per-round", "2", "--samples-per-client", "20", "--quiet", "--json", "--rounds", "6"]


def wait_for_sleep(folder):
    until = time.monotonic() + 300
    while not (folder / "asleep").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), ENDINGS)
@pytest.mark.parametrize("to", ["process", "group"])
def test_sigterm_and_sighup_end_a_run_at_once_with_its_last_finished_round(number, code, to, tmp_path):
    """Round 3 takes an hour: it is given up, and rounds 1 and 2 are kept, which took less than a second."""
    (tmp_path / "slow.py").write_text(LATER_SLOW)
    out = tmp_path / "my run"
    process = start(
        tmp_path, "run", *TWO, "--method", "slow:Slow", "--workers", 1 if to == "process" else 2, "--out", out
    )
    wait_for_rounds(out, at_least=2)
    wait_for_sleep(tmp_path)
    began = time.monotonic()
    (os.kill if to == "process" else os.killpg)(process.pid, number)
    stdout, stderr = end(process)
    assert time.monotonic() - began < 20
    assert (process.returncode, stdout) == (code, "")
    assert f"ended by {number.name} after round 2; to go on: fedtrip run --resume '{out}'" in stderr
    assert stderr.count("\n") == 1
    assert (out / "checkpoint/server-2.safetensors").is_file()


def test_where_sighup_is_ignored_it_stays_so(tmp_path):
    (tmp_path / "slow.py").write_text(LATER_SLOW)
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    arguments = [
        sys.executable,
        "-m",
        "fedtrip",
        "run",
        *TWO,
        "--method",
        "slow:Slow",
        "--workers",
        "1",
        "--out",
        "run",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True, process_group=0
    )
    wait_for_sleep(tmp_path)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    process.communicate()


@pytest.mark.parametrize("to", ["process", "group"])
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_ends_a_comparison_and_each_trial_keeps_its_rounds(to, workers, tmp_path):
    (tmp_path / "slow.py").write_text(LATER_SLOW)
    out = tmp_path / "cmp"
    command = ["compare", *TWO, "--methods", "slow:Slow,fedavg", "--trials", 1, "--workers", workers, "--out", out]
    process = start(tmp_path, *command)
    wait_for_sleep(tmp_path)
    (os.kill if to == "process" else os.killpg)(process.pid, signal.SIGTERM)
    stdout, stderr = end(process)
    assert (process.returncode, stdout) == (143, "")
    assert f"ended by SIGTERM; to go on: the same command with --resume --out {out}" in stderr
    assert len(list(out.glob("runs/*Slow*/0/checkpoint/server-2.safetensors"))) == 1


def test_sigterm_ends_a_reproduction(tmp_path, write_idx_set):
    write_idx_set(tmp_path / "data/MNIST/raw", samples=(6100, 60))
    command = ["reproduce", "table4", "--case", "mlp-mnist", "--trials", 1, "--workers", 2, "--quiet"]
    command += ["--data-dir", "data", "--out", "results"]
    process = start(tmp_path, *command)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("results/unfinished/*/metrics.jsonl")):
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, stderr = end(process)
    assert process.returncode == 143
    assert "ended by SIGTERM; the same command goes on" in stderr


def test_a_signal_at_any_moment_leaves_the_state_of_a_finished_round(blobs, tmp_path):
    """Signals at random moments of short rounds; what is kept is always a whole round, and ends with the same bits."""
    import random

    import fedtrip as package
    from fedtrip.interruption import Interruption, Terminated

    experiment = package.Experiment(rounds=40, clients=5, per_round=2, samples_per_client=20, method="scaffold")
    began = time.monotonic()
    whole = package.run(experiment, data=blobs, workers=1)
    duration = time.monotonic() - began
    dice, ended, number = random.Random(0), 0, 0
    while ended < 8:
        out, seen = tmp_path / str(number), []
        try:
            with Interruption():
                signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.05, 1) * duration)
                try:
                    again = package.run(experiment, data=blobs, out=out, resume=True, workers=1, on_round=seen.append)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)  # or it would reach who listens to nothing
        except Terminated:
            ended += 1
            names = [path.name for path in out.glob("checkpoint/server-*.safetensors")]
            finished = (out / "summary.json").exists()
            assert finished or not seen or names == [f"server-{seen[-1].round}.safetensors"]
        else:
            assert again.model_sha256 == whole.model_sha256
            number += 1
    for out in tmp_path.iterdir():
        last = package.run(experiment, data=blobs, out=out, resume=True, workers=1)
        assert last.model_sha256 == whole.model_sha256
