"""Each job with what it received itself, several questions at once, and work that nobody waits for any more."""

from dataclasses import dataclass

import pytest
import torch
from test_pool import Nobody, with_method

import fedtrip
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
        [Question(one, client) for client in range(6)],
        [Question(one), Question(other, 3), Question(one, 0), Question(other)],
        [Question(other, 5)],
    ):
        expected = serial.score(questions)
        assert pool.score(questions) == expected
    assert serial.score([Question(one)]) != serial.score([Question(other)])
    assert serial.score([Question(one, 0)]) != serial.score([Question(one, 1)])
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


def test_what_a_worker_hands_over_is_not_overwritten_by_its_next_work(federation, engines):
    _, pool = engines
    jobs = jobs_with(models(federation, 6))
    first = next(outcomes := pool.work(jobs))
    before = bits(first.upload), bits(first.memory.packed())
    list(outcomes)
    list(pool.work(jobs[::-1]))
    assert (bits(first.upload), bits(first.memory.packed())) == before
    assert all(v.is_contiguous() and isinstance(v, torch.Tensor) for v in first.upload.values())
