"""A pool of processes gives the bits of one process, whatever happens to its workers, and leaves none behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict, dataclass, field, replace

import pytest

import fedtrip
from fedtrip.engines.pool import PoolEngine
from fedtrip.engines.serial import SerialEngine
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.families import METHOD
from fedtrip.methods.fedavg import FedAvg
from fedtrip.one_thread import one_thread
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state


class Nobody:
    """In the place of the parent's own workbench: the work is to be done by the workers."""

    def __init__(self, bench):
        self.blocks = bench.blocks

    def client(self, *work):
        raise AssertionError(f"{work} was done in the parent")

    score = client


def go_through(federation, engine, between=lambda: None):
    """Records without their times, and the final model."""
    state, records = initial_state(federation, ClientStore()), []
    with one_thread():
        for record, _ in rounds(federation, engine, state):
            records.append({**asdict(record), "seconds": None})
            between()
    return records, {name: vector.numpy().tobytes() for name, vector in state.server.model.items()}


def with_workers(federation, count, between=lambda _engine: None):
    engine = PoolEngine(federation, count)
    try:
        engine.wait_until_ready()
        engine._here = Nobody(engine._here)
        return go_through(federation, engine, lambda: between(engine))
    finally:
        pids = engine.worker_pids()
        engine.close()
        assert not any(is_running(pid) for pid in pids)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def serially(federation):
    return go_through(federation, SerialEngine(federation))


SMALL = {"rounds": 3, "samples_per_client": 60, "clients": 6, "per_round": 3, "eval_every": 2}


THREE = {"fedtrip", "feddane", "scaffold", "moon", "fedper", "apfl"}
"""a method of each kind: a memory, two exchanges, several vectors, frozen networks, parts that stay, a direction"""


@pytest.mark.parametrize("method", METHOD.names())
def test_one_two_and_three_workers_give_the_same_bits(method):
    federation = prepare(Experiment(method=method, rounds=4, samples_per_client=60, clients=5, per_round=4))
    expected = serially(federation)
    assert any(record["scores"]["accuracy"] for record in expected[0])
    assert with_workers(federation, 2) == expected
    if method in THREE:  # each worker is a process that imports torch
        assert with_workers(federation, 3) == expected


@pytest.mark.parametrize("workers", [2, 3])
def test_dropout_of_alexnet(images, workers):
    experiment = Experiment(
        model="alexnet", method="fedtrip", rounds=2, clients=4, per_round=3, samples_per_client=8, batch_size=4
    )
    federation = prepare(experiment, data=fedtrip.from_arrays(**images))
    assert with_workers(federation, workers) == serially(federation)


@pytest.mark.parametrize("method", ["fedtrip", "moon", "scaffold", "mimelite", "feddane", "fedgkd"])
def test_batch_norm_and_kept_optimizer_state_of_a_users_model(blobs, batch_norm_model, method):
    experiment = Experiment(
        method=method,
        rounds=4,
        clients=5,
        per_round=4,
        samples_per_client=20,
        batch_size=8,
        momentum=0.9,
        keep_optimizer_state=True,
    )
    federation = prepare(experiment, data=fedtrip.from_arrays(**blobs), model=batch_norm_model)
    expected = serially(federation)
    assert {"w", "buffers", "counters"} == expected[1].keys()
    assert with_workers(federation, 3) == expected
    forgetful = prepare(
        experiment.but(keep_optimizer_state=False), data=fedtrip.from_arrays(**blobs), model=batch_norm_model
    )
    assert serially(forgetful)[1] != expected[1]


def test_a_killed_worker_is_replaced_between_rounds():
    federation = prepare(Experiment(**SMALL))
    pids = []

    def kill_one(engine):
        pids.append(engine.worker_pids()[0])
        os.kill(pids[-1], signal.SIGKILL)
        while is_running(pids[-1]):  # or the engine might give it the next round's work before the signal arrives
            time.sleep(0.01)

    assert with_workers(federation, 2, kill_one) == serially(federation)
    assert len(set(pids)) == 3
    assert not any(is_running(pid) for pid in pids)


@dataclass(frozen=True)
class KillsItself(FedAvg):
    """Kills the process it runs in, as often as there is no mark of an earlier death."""

    parent: int = 0
    marks: str = ""
    times: int = 1

    def client(self, received, memory, local):
        if os.getpid() != self.parent and len(os.listdir(self.marks)) < self.times:
            open(os.path.join(self.marks, str(os.getpid())), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().client(received, memory, local)


def federation_of(method, blobs, **fields):
    experiment = Experiment(
        method="fedavg", **{"rounds": 3, "clients": 4, "per_round": 3, "samples_per_client": 20, **fields}
    )
    return with_method(prepare(experiment, data=fedtrip.from_arrays(**blobs)), method)


def with_method(federation, method):
    return replace(federation, rules=replace(federation.rules, method=method))


def test_a_worker_killed_in_the_middle_of_its_work_is_replaced_and_the_result_is_the_same(blobs, tmp_path):
    federation = federation_of(KillsItself(os.getpid(), str(tmp_path)), blobs)
    expected = serially(federation)
    engine = PoolEngine(federation, 2)
    engine.wait_until_ready()
    assert go_through(federation, engine) == expected
    assert os.listdir(tmp_path)  # one worker, or two that began at the same moment
    engine.close()


def test_work_that_kills_every_worker_is_an_error_and_not_a_hang(blobs, tmp_path):
    federation = federation_of(KillsItself(os.getpid(), str(tmp_path), times=100), blobs, per_round=1)
    with pytest.raises(UserError, match="lost 3 times at the same work: killed by SIGKILL"):
        with_workers(federation, 1)
    pids = [int(name) for name in os.listdir(tmp_path)]
    assert len(pids) == 3
    assert not any(is_running(pid) for pid in pids)


@dataclass(frozen=True)
class Fails(FedAvg):
    problem: type[Exception] = ZeroDivisionError
    parent: int = field(default_factory=os.getpid)

    def client(self, received, memory, local):
        if local.round == 2:
            raise self.problem("on purpose")
        return super().client(received, memory, local)


@pytest.mark.parametrize(
    ("problem", "raised", "message"),
    [(ZeroDivisionError, RuntimeError, "ZeroDivisionError: on purpose"), (UserError, UserError, r"^on purpose$")],
)
def test_a_users_exception_is_told_and_no_process_is_left(blobs, problem, raised, message):
    federation = federation_of(Fails(problem), blobs)
    with pytest.raises(problem, match="on purpose"):
        serially(federation)
    with pytest.raises(raised, match=message):
        with_workers(federation, 2)  # which checks that its processes are gone


def test_a_module_that_cannot_be_found_in_the_workers_is_an_error_and_not_a_loop(blobs, here, monkeypatch):
    (here / "vanishing_method.py").write_text(
        textwrap.dedent(f"""
        import os
        from dataclasses import dataclass
        from fedtrip.methods.fedavg import FedAvg
        if os.getpid() != {os.getpid()}: raise ImportError("not in a worker")
        @dataclass(frozen=True)
        class Vanishing(FedAvg): pass
        """)
    )
    monkeypatch.syspath_prepend(str(here))
    import vanishing_method

    engine = PoolEngine(federation_of(vanishing_method.Vanishing(), blobs), 2)
    try:
        with pytest.raises(RuntimeError, match="ImportError: not in a worker"):
            engine.wait_until_ready()
    finally:
        pids = engine.worker_pids()
        engine.close()
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_workers_end_when_their_parent_is_killed(busy, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import time
        from fedtrip import Experiment
        from fedtrip.engines.pool import PoolEngine
        from fedtrip.experiment.federation import prepare
        from fedtrip.rounds.state import initial_state
        from fedtrip.rounds.loop import rounds
        from fedtrip.rounds.memories import ClientStore
        federation = prepare(Experiment(rounds=1_000_000))
        engine = PoolEngine(federation, 2)
        engine.wait_until_ready()
        print(*engine.worker_pids(), flush=True)
        for _ in rounds(federation, engine, initial_state(federation, ClientStore())) if {busy} else ():
            pass
        time.sleep(600)
        """)
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(is_running(pid) for pid in workers)
        time.sleep(0.5)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(is_running(pid) for pid in workers)


def test_closing_twice_is_harmless(blobs):
    engine = PoolEngine(federation_of(FedAvg(), blobs), 1)
    engine.close()
    engine.close()
