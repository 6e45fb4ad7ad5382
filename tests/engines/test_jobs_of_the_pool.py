"""Each job with what it received itself, several questions at once, and work that nobody waits for any more."""

import os
import signal
import time
from dataclasses import dataclass

import pytest
import torch
from test_pool import Nobody, with_method

import fedtrip
from fedtrip.engines import pool as pool_module
from fedtrip.engines.pool import PoolEngine
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.interface import Memory
from fedtrip.one_thread import one_thread
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job
from fedtrip.training.workbench import Question


@dataclass(frozen=True)
class FailsInRound2(FedTrip):
    """The method of the federation; a job of round 2 is one that goes wrong."""

    def client(self, received, memory, local):
        if local.round == 2:
            raise ZeroDivisionError("on purpose")
        return super().client(received, memory, local)


@pytest.fixture
def federation(blobs, batch_norm_model):
    experiment = Experiment(
        clients=6, per_round=4, samples_per_client=20, rounds=3, upload_codec="topk:0.2", keep_optimizer_state=True
    )
    return with_method(
        prepare(experiment, data=fedtrip.from_arrays(**blobs), model=batch_norm_model), FailsInRound2(mu=0.4)
    )


@pytest.fixture
def engines(federation):
    """The reference, and a pool whose work is done by its workers."""
    with one_thread():
        pool = PoolEngine(federation, 2)
        try:
            pool.wait_until_ready()
            pool._here = Nobody(pool._here)
            yield SerialEngine(federation), pool
        finally:
            pool.close()


def models(federation, count):
    first = initial_state(federation, ClientStore()).server.model
    return [{**first, "w": first["w"] + 0.1 * k, "buffers": first["buffers"] + 0.01 * k} for k in range(count)]


def bits(vectors):
    return {name: (v.dtype, tuple(v.shape), v.numpy().tobytes()) for name, v in vectors.items()}


def told(outcomes):
    return [(o.client, o.samples, bits(o.upload), bits(o.memory.packed()), o.memory.last_round) for o in outcomes]


def jobs_with(received, round_number=1):
    return [Job(k, round_number, 0, given, Memory()) for k, given in enumerate(received)]


def test_jobs_that_receive_different_vectors(federation, engines):
    serial, pool = engines
    jobs = jobs_with(models(federation, 5))
    expected = told(serial.work(jobs))
    assert told(pool.work(jobs)) == expected
    assert told(serial.work(jobs_with([jobs[0].received] * 5))) != expected
    # two that share one object beside one that does not; and memories of their own
    mixed = jobs_with([jobs[0].received, jobs[0].received, jobs[3].received])
    assert told(pool.work(mixed)) == told(serial.work(mixed))
    later = [Job(o.client, 3, 0, jobs[4].received, o.memory) for o in serial.work(jobs)]
    assert told(pool.work(later)) == told(serial.work(later))


def test_several_questions_at_once(federation, engines):
    serial, pool = engines
    one, other = models(federation, 2)
    for questions in (
        [Question(one), Question(other)],
        [Question(one, client, "train") for client in range(6)],
        [Question(one), Question(other, 3, "train"), Question(one, 0, "train"), Question(other)],
        [Question(other, 5, "train")],
    ):
        expected = serial.score(questions)
        assert pool.score(questions) == expected
    assert serial.score([Question(one)]) != serial.score([Question(other)])
    assert serial.score([Question(one, 0, "train")]) != serial.score([Question(one, 1, "train")])
    assert pool.score([]) == serial.score([]) == []


def test_work_that_is_left_in_the_middle_does_not_disturb_the_next(federation, engines):
    serial, pool = engines
    received = models(federation, 6)
    jobs, others = jobs_with(received), jobs_with(received[::-1])
    for taken in (1, 3):
        left = pool.work(jobs)
        for _ in range(taken):
            next(left)
        assert told(pool.work(others)) == told(serial.work(others))
        assert pool.score([Question(received[1])]) == serial.score([Question(received[1])])
        with pytest.raises(RuntimeError, match="other work"):
            next(left)


def test_an_error_in_work_that_was_left_is_nobodys(federation, engines):
    serial, pool = engines
    received = models(federation, 4)
    good = jobs_with(received)
    pool._here = serial._bench  # who else works while the workers are replaced
    with pytest.raises(RuntimeError, match="on purpose"):  # of one worker; the other one's has yet to come
        next(pool.work(jobs_with(received, round_number=2)))
    assert told(pool.work(good)) == told(serial.work(good))


def test_work_that_is_begun_later_than_it_was_asked_for(federation, engines):
    serial, pool = engines
    received = models(federation, 2)
    jobs = jobs_with([received[0]] * 3)
    late = pool.work(jobs)
    pool.score([Question(received[1])])
    assert told(late) == told(serial.work(jobs))


@pytest.mark.parametrize("held_bytes", [0, pool_module.HELD_BYTES], ids=["one at a time", "many at once"])
def test_what_a_worker_hands_over_stays_until_the_next_is_asked_for(federation, engines, monkeypatch, held_bytes):
    monkeypatch.setattr(pool_module, "HELD_BYTES", held_bytes)
    serial, pool = engines
    received = models(federation, 6)
    for jobs in (jobs_with(received), jobs_with([received[0]] * 6)):
        expected, found = told(serial.work(jobs)), []
        for outcome in pool.work(jobs):
            assert outcome.is_borrowed or held_bytes == 0  # one whose turn had not come may have had to make room
            time.sleep(0.05)  # the workers go on meanwhile
            found += told([outcome])
        assert found == expected


def test_what_comes_in_its_turn_is_taken_where_it_lies_also_where_memory_is_short(federation, monkeypatch):
    monkeypatch.setattr(pool_module, "HELD_BYTES", 0)
    with one_thread():
        pool = PoolEngine(federation, 1)
        try:
            pool.wait_until_ready()
            assert all(outcome.is_borrowed for outcome in pool.work(jobs_with(models(federation, 4))))
        finally:
            pool.close()


def test_a_large_client_is_begun_first_and_its_outcome_waits_for_its_turn(blobs, batch_norm_model):
    sizes = [6, 6, 30, 8]
    data = fedtrip.from_arrays(
        blobs["x_train"][:50], blobs["y_train"][:50], blobs["x_test"], blobs["y_test"],
        client_train=torch.repeat_interleave(torch.arange(4), torch.tensor(sizes)),
    )  # fmt: skip
    experiment = Experiment(method="fedavg", partition="given", clients=4, per_round=4, batch_size=4, rounds=1)
    federation = prepare(experiment, data=data, model=batch_norm_model)
    begun = []

    def watched(send):
        return lambda message: (begun.append([piece.client for piece in message.pieces]), send(message))

    with one_thread():
        pool, serial = PoolEngine(federation, 2), SerialEngine(federation)
        try:
            pool.wait_until_ready()
            for worker in pool._workers:
                worker.process.send = watched(worker.process.send)
            jobs = jobs_with([initial_state(federation, ClientStore()).server.model] * 4)
            assert told(pool.work(jobs)) == told(serial.work(jobs))
        finally:
            pool.close()
    assert begun == [[2], [3, 0], [1]]  # 30 for one, 8 and 6 for the other, the last for who is free first


def test_outcomes_of_a_worker_that_dies_afterwards_are_still_good(federation, engines):
    serial, pool = engines
    jobs = jobs_with(models(federation, 6))
    expected = told(serial.work(jobs))
    outcomes = pool.work(jobs)
    found = told([next(outcomes)])
    time.sleep(0.5)  # those of the first message are there by now
    for pid in pool.worker_pids():
        os.kill(pid, signal.SIGKILL)
    found += told(outcomes)
    assert found == expected
