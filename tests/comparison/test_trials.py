"""Trials side by side: several data sets, lost processes, errors, and no process left."""

import os
import signal
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

import fedtrip
from fedtrip import Experiment
from fedtrip.comparison.trials import Trial, run_trials
from fedtrip.experiment.federation import prepare
from fedtrip.methods.fedavg import FedAvg
from fedtrip.runs.folder import read_summary
from fedtrip.runs.running import run_federation

SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 10, "batch_size": 5}


def trial(name, folder, federation, rounds=3):
    return Trial(name=name, prepare=lambda: federation, out=folder / name, rounds=rounds)


def test_trials_of_several_data_sets_on_two_processes(blobs, tmp_path):
    """Each process inherits the memory of the data sets that are there when it starts; others need a new one."""
    sets = [fedtrip.from_arrays(**{**blobs, "x_train": blobs["x_train"] * np.float32(s)}) for s in (1, 2, 3)]
    federations = [prepare(Experiment(**SMALL, seed=n), data=sets[n % 3 if n < 6 else 0]) for n in range(8)]
    todo = [trial(str(number), tmp_path, federation) for number, federation in enumerate(federations)]
    rounds = Counter()
    finished = [t.name for t in run_trials(todo, workers=2, on_round=lambda t, _record: rounds.update([t.name]))]
    assert sorted(finished) == sorted(t.name for t in todo)
    assert rounds == {t.name: 3 for t in todo}
    for number, federation in enumerate(federations):
        here = run_federation(federation, workers=1)
        assert read_summary(tmp_path / str(number))["model_sha256"] == here.model_sha256


def with_method(federation, method):
    return replace(federation, rules=replace(federation.rules, method=method))


@dataclass(frozen=True)
class Touchy(FedAvg):
    """In another process: dies once, or fails."""

    parent: int = 0
    mark: str = ""
    fails: bool = False

    def client(self, received, memory, local):
        if os.getpid() != self.parent and local.round == 2:
            if self.fails:
                raise ZeroDivisionError("on purpose")
            if not os.path.exists(self.mark):
                open(self.mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().client(received, memory, local)


def test_a_trial_whose_process_is_killed_is_begun_again(blobs, tmp_path):
    federation = prepare(Experiment(**SMALL, method="fedavg"), data=fedtrip.from_arrays(**blobs))
    touchy = with_method(federation, Touchy(os.getpid(), str(tmp_path / "mark")))
    todo = [trial("touchy", tmp_path, touchy), trial("plain", tmp_path, federation)]
    assert {t.name for t in run_trials(todo, workers=2, on_round=None)} == {"touchy", "plain"}
    assert (tmp_path / "mark").exists()
    assert read_summary(tmp_path / "touchy")["model_sha256"] == read_summary(tmp_path / "plain")["model_sha256"]


def children():
    """The running processes that this one started."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found.update(file.read().split())
    return found


def test_an_error_in_a_trial_ends_the_comparison_and_all_processes(blobs, tmp_path):
    federation = prepare(Experiment(**SMALL, method="fedavg"), data=fedtrip.from_arrays(**blobs))
    failing = with_method(federation, Touchy(os.getpid(), fails=True))
    before = children()
    todo = [trial("failing", tmp_path, failing), trial("plain", tmp_path, federation)]
    with pytest.raises(RuntimeError, match="ZeroDivisionError: on purpose"):
        list(run_trials(todo, workers=2, on_round=None))
    assert children() <= before


def test_one_worker_runs_them_here_in_order(blobs, tmp_path):
    federation = prepare(Experiment(**SMALL), data=fedtrip.from_arrays(**blobs))
    todo = [trial(name, tmp_path, federation) for name in ("b", "a", "c")]
    before = children()
    assert [t.name for t in run_trials(todo, workers=1, on_round=None)] == ["b", "a", "c"]
    assert children() <= before


@pytest.mark.parametrize("workers", [1, 2])
def test_trials_that_are_left_after_a_round_go_on_from_there(workers, blobs, tmp_path):
    data = fedtrip.from_arrays(**blobs)
    federations = [prepare(Experiment(**SMALL, seed=seed), data=data) for seed in range(3)]
    rounds = Counter()
    for until in (2, None):
        todo = [replace(trial(str(seed), tmp_path, one), until=until) for seed, one in enumerate(federations)]
        finished = [t.name for t in run_trials(todo, workers=workers, on_round=lambda t, _: rounds.update([t.name]))]
        assert sorted(finished) == ["0", "1", "2"]
        assert rounds == dict.fromkeys("012", until or 3)
        assert all((tmp_path / name / "summary.json").is_file() == (until is None) for name in "012")
    for seed, federation in enumerate(federations):
        assert read_summary(tmp_path / str(seed))["model_sha256"] == run_federation(federation, workers=1).model_sha256
