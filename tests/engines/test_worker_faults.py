"""Workers that hang or run out of memory, in real processes: noticed and replaced, their work redone, the same bits."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest
import torch
from test_pool import federation_of, is_running, serially, with_method, with_workers

import fedtrip
from fedtrip import Experiment, UserError
from fedtrip.comparison.trials import Trial, run_trials
from fedtrip.engines import process
from fedtrip.experiment.federation import prepare
from fedtrip.methods.fedavg import FedAvg
from fedtrip.runs.folder import read_summary


@dataclass(frozen=True)
class Faulty(FedAvg):
    """In another process, as long as there are fewer marks than `times`, something happens to it in round 2."""

    parent: int = 0
    marks: str = ""
    what: str = ""
    times: int = 1

    def client(self, received, memory, local):
        if os.getpid() != self.parent and local.round == 2 and self.is_my_turn():
            if self.what == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            elif self.what == "asleep":
                time.sleep(1000)
            else:  # no more memory than now: a real refusal of the system
                resource.setrlimit(resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
                _ = torch.zeros(10**9) if self.what == "torch" else bytearray(10**9)
        return super().client(received, memory, local)

    def is_my_turn(self):
        """Whether this process is one of the `times` that leave a mark, a file with their number in it."""
        for number in range(self.times):
            with suppress(FileExistsError), open(os.path.join(self.marks, str(number)), "x") as mark:
                mark.write(str(os.getpid()))
                return True
        return False


FAULTS = [
    "stopped",
    pytest.param("asleep", marks=pytest.mark.slow),
    pytest.param("python", marks=pytest.mark.slow),
    "torch",
]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(process, "SECONDS_WITHOUT_PROGRESS", 2.0)
    monkeypatch.setattr(process, "TICK", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", FAULTS)
def test_a_worker_that_hangs_or_lacks_memory_is_replaced(what, blobs, tmp_path):
    federation = federation_of(Faulty(os.getpid(), str(tmp_path), what), blobs)
    assert with_workers(federation, 2) == serially(federation)
    assert os.listdir(tmp_path) == ["0"]
    assert not is_running(int((tmp_path / "0").read_text()))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", [pytest.param("stopped", marks=pytest.mark.slow), "python"])
def test_what_happens_every_time_ends_in_one_clear_line(what, blobs, tmp_path):
    federation = federation_of(Faulty(os.getpid(), str(tmp_path), what, times=99), blobs, per_round=1)
    why = "it made no progress for 2 s" if what == "stopped" else "it ran out of memory"
    with pytest.raises(UserError, match=f"lost 3 times at the same work: {why}; accepted: fewer workers, or a smaller"):
        with_workers(federation, 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", ["stopped", pytest.param("torch", marks=pytest.mark.slow)])
def test_a_trial_whose_process_hangs_or_lacks_memory_goes_on_in_another(what, blobs, tmp_path):
    small = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 10, "batch_size": 5}
    federation = prepare(Experiment(**small, method="fedavg"), data=fedtrip.from_arrays(**blobs))
    (tmp_path / "marks").mkdir()
    faulty = with_method(federation, Faulty(os.getpid(), str(tmp_path / "marks"), what))
    todo = [
        Trial(name=name, prepare=lambda which=which: which, out=tmp_path / name, rounds=3)
        for name, which in (("faulty", faulty), ("plain", federation))
    ]
    assert {trial.name for trial in run_trials(todo, workers=2, on_round=None)} == {"faulty", "plain"}
    assert len(os.listdir(tmp_path / "marks")) == 1
    assert read_summary(tmp_path / "faulty")["model_sha256"] == read_summary(tmp_path / "plain")["model_sha256"]


@dataclass(frozen=True)
class Slow(FedAvg):
    """Honest work that takes longer than the patience with one that hangs."""

    parent: int = 0

    def client(self, received, memory, local):
        until = time.monotonic() + (3 if os.getpid() != self.parent and local.round == 2 else 0)
        while time.monotonic() < until:
            sum(range(1000))
        return super().client(received, memory, local)


def test_a_worker_that_is_merely_slow_is_left_alone(blobs, monkeypatch):
    monkeypatch.setattr(process, "SECONDS_WITHOUT_PROGRESS", 1.0)
    monkeypatch.setattr(process, "TICK", 0.5)
    federation = federation_of(Slow(os.getpid()), blobs, per_round=2, rounds=2)
    pids = []
    assert with_workers(federation, 2, lambda engine: pids.append(engine.worker_pids())) == serially(federation)
    assert pids[0] == pids[-1]


PARENT = """
import time
from fedtrip.engines.process import WorkerProcess
worker = WorkerProcess("test_worker_faults:work")
print(worker.pid, worker.receive(), flush=True)
time.sleep(1000)
"""


def work(connection):
    """A service that never looks at its connection."""
    connection.send(("answer", "at work"))
    while True:
        time.sleep(1)


def test_a_worker_ends_with_its_parent_also_in_the_middle_of_its_work():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment)
    pid = int(parent.stdout.readline().split()[0])
    assert is_running(pid)
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(pid)
    parent.stdout.close()
