"""What travels, one to one; and what is refused when it comes from somewhere else."""

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedtrip.flower.records import (
    BadRecord,
    RemoteJob,
    RunIdentity,
    from_arrays,
    job_content,
    outcome_content,
    read_job,
    read_outcome,
    serialised_size,
    to_arrays,
)
from fedtrip.methods.interface import Memory
from fedtrip.training.client import Outcome

RUN = RunIdentity("0" * 32, 'dataset = "digits"', 10, "shape (1, 8, 8) and type float32")
JOB = RemoteJob(RUN, 3, 7, 1, 5, {"w": torch.tensor([1.0, -0.0, torch.nan, 1e-45]), "counters": torch.tensor([2**62])})


def same(a, b):
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and a[name].numpy().tobytes() == b[name].numpy().tobytes() for name in a
    )


def test_vectors_arrive_as_they_were_sent():
    coded = torch.arange(256).to(torch.uint8)
    vectors = {**JOB.received, "empty": torch.empty(0), "matrix": torch.arange(6.0).reshape(2, 3), "coded": coded}
    arrived = from_arrays(to_arrays(vectors))
    assert same(vectors, arrived)
    assert arrived["matrix"].shape == (2, 3)
    arrived["w"].add_(1)  # its own memory, which may be written to


def test_a_job_and_its_outcome_arrive_as_they_were_sent():
    content = job_content(JOB)
    job = read_job(content)
    assert (job.run, job.client, job.round, job.exchange, job.memory_round) == (RUN, 3, 7, 1, 5)
    assert same(job.received, JOB.received)
    memory = Memory({"w_hist": torch.zeros(6)}, 7, {"1.momentum": torch.zeros(1)}, {"w": torch.zeros(1)})
    sent = Outcome(3, 40, {"w": torch.ones(4)}, memory, 123)
    outcome = read_outcome(outcome_content(sent), JOB, samples=40)
    assert (outcome.client, outcome.samples, outcome.macs) == (3, 40, 123)
    assert same(outcome.upload, sent.upload)
    assert (outcome.memory.last_round, outcome.memory.size_in_bytes()) == (7, 32)
    assert not outcome.memory.packed()  # the memory itself stays on its node


def test_the_serialised_size_is_a_little_more_than_the_arrays():
    vectors = {"w": torch.randn(100_000)}
    assert 400_000 < serialised_size(RecordDict({"upload": to_arrays(vectors)})) < 402_000


def npy(array):
    return Array(np.asarray(array)).data


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not a NumPy array"),
        (b"\x93NUMPY" + b"\0" * 100, "not a NumPy array"),
        (npy(np.zeros(3, np.float64)), "of type float64"),
        (npy(np.zeros(3, ">f4")), "of type >f4"),
        (npy(np.zeros(3, bool)), "of type bool"),
        (npy(np.zeros(3, np.int8)), "of type int8"),
        (npy(np.zeros(3, np.uint8)).replace(b"(3,), }", b"(2**40,), }"), "not a NumPy array"),
        (npy(np.zeros(3, np.uint8)).replace(b"(3,), }  ", b"(99999,), }"), "has 5 bytes, which is not the size of"),
        (npy(np.zeros(3, np.float32))[:-1], "has 11 bytes"),
        (npy(np.zeros(3, np.float32)) + b"0", "has 13 bytes"),
        (npy(np.zeros(3, np.float32)).replace(b"(3,), }", b"(999999999999,), }"), "not a NumPy array|has"),
        (npy(np.zeros((2, 3), np.float32, order="F")), "of type float32"),
    ],
)
def test_an_array_that_is_not_exactly_ours_is_refused(data, told):
    with pytest.raises(BadRecord, match=told):
        from_arrays(ArrayRecord({"w": Array("float32", (3,), "numpy.ndarray", data)}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"client": 4}, "of client 4"),
        ({"samples": 41}, "announced 40"),
        ({"samples": -1}, "'samples' is -1"),
        ({"macs": 0.5}, "'macs' is 0.5"),
        ({"memory-bytes": "many"}, "'memory-bytes' is 'many'"),
    ],
)
def test_an_answer_of_somebody_else_or_without_its_numbers_is_refused(change, told):
    content = outcome_content(Outcome(3, 40, {"w": torch.ones(4)}, Memory(), 123))
    content["outcome"] = ConfigRecord({**content["outcome"], **change})
    with pytest.raises(BadRecord, match=told):
        read_outcome(content, JOB, samples=40)
    with pytest.raises(BadRecord, match="no 'outcome'"):
        read_outcome(RecordDict(), JOB, samples=40)
