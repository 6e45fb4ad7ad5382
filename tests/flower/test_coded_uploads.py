"""Coded uploads on Flower: a codec's bytes arrive as they were sent, the server has nothing else, and what is no
payload is refused. The grid is in this process: its nodes are real, some of their answers are crafted."""

import re
import threading
from dataclasses import replace

import pytest
import torch

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedtrip import Experiment
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.flower.engine import FlowerEngine, Tolerance
from fedtrip.flower.node import Node
from fedtrip.flower.records import outcome_content, read_job
from fedtrip.methods.interface import Memory
from fedtrip.one_thread import one_thread
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job
from fedtrip.training.prepared_model import PreparedModel

KEY = "0" * 32
CLIENTS = 4


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """What Flower sets in the process of a ServerApp: whose messages these are."""
    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class NearGrid:
    """A grid whose nodes do their work at once; `craft` changes what a client's node answers."""

    def __init__(self, memories, craft=lambda outcome: outcome):
        self._memories, self._craft, self._answers, self._count = memories, craft, {}, 0

    def get_node_ids(self):
        return list(range(100, 100 + CLIENTS))

    def push_messages(self, messages):
        for message in messages:
            self._count += 1
            message.metadata.__dict__["_message_id"] = str(self._count)
            client = message.metadata.dst_node_id - 100
            content = self._answer(message, {"partition-id": client, "memory-dir": str(self._memories)})
            self._answers[str(self._count)] = Message(content, reply_to=message)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids):
        return [self._answers.pop(name) for name in list(ids) if name in self._answers]

    def _answer(self, message, config):
        if message.metadata.message_type == "query.announce":
            return RecordDict({"node": ConfigRecord({"client": config["partition-id"], "samples": 30})})
        job = read_job(message.content)
        return outcome_content(self._craft(Node(config, job.run).do(job)))


def federation_of(**rules):
    return prepare(Experiment(rounds=3, clients=CLIENTS, per_round=CLIENTS, samples_per_client=30, lr=0.1, **rules))


def engine_of(federation, grid):
    return FlowerEngine(grid, federation, PreparedModel.of(federation), KEY, Tolerance(), threading.Event())


def all_rounds(federation, engine):
    state = initial_state(federation, ClientStore())
    with one_thread():
        return [record for record, _ in rounds(federation, engine, state)], state.server.model


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("codec", ["topk:0.1", "int8", "sign", "eden:2", "randk:0.1", "qsgd:7:512"])
def test_a_payload_arrives_byte_for_byte(codec, tmp_path):
    federation = federation_of(upload_codec=codec)
    received = initial_state(federation, ClientStore()).server.model
    jobs = [Job(client, 1, 0, received, Memory()) for client in range(CLIENTS)]
    with one_thread():
        here = list(SerialEngine(federation).work(jobs))
        there = list(engine_of(federation, NearGrid(tmp_path)).work(jobs))
    for one, other in zip(here, there, strict=True):
        assert one.upload["w"].dtype == torch.uint8
        assert same(one.upload, other.upload)
        assert other.remote
        assert other.memory.size_in_bytes() == one.memory.size_in_bytes()
        assert not other.memory.packed()  # the residuals stay on the node


@pytest.mark.parametrize(
    "rules",
    [
        {"method": "fedavg", "upload_codec": "topk:0.1", "combine": "median"},
        {"method": "scaffold", "upload_codec": "int8", "server_optimizer": "adam"},
        {"method": "scaffold", "upload_codec": {"name": "eden:1", "feedback": True}},
        {"method": "fedavg", "upload_codec": {"name": "randk:0.1", "feedback": True}},
        {"method": "fedtrip", "upload_codec": "topk:0.5", "combine": "trimmed:0.25", "keep_optimizer_state": True},
    ],
    ids=str,
)
def test_the_same_bits_as_on_one_machine(rules, tmp_path):
    federation = federation_of(**rules)
    records, model = all_rounds(federation, engine_of(federation, NearGrid(tmp_path)))
    expected, reference = all_rounds(federation, SerialEngine(federation))
    assert same(model, reference)
    assert [(r.bytes_up, r.scores, r.refused) for r in records] == [(r.bytes_up, r.scores, {}) for r in expected]


CRAFTED = {
    "short": (lambda w: w[:-1].clone(), r"'w' is \(\d+,\) of torch.uint8 instead of \d+ bytes"),
    "long": (lambda w: torch.cat([w, w]), r"'w' is .* instead of \d+ bytes"),
    "matrix": (lambda w: w[None], r"'w' is \(1, \d+\) of torch.uint8 instead of"),
    "floats": (lambda w: w.float(), r"of torch.float32 instead of"),
    "integers": (lambda w: w.long(), r"of torch.int64 instead of"),
    "other count": (lambda w: torch.cat([w[:4] + 1, w[4:]]), r"numbers are announced instead of"),
    "places outside": (lambda w: torch.cat([w[:-4], torch.full((4,), 255, dtype=torch.uint8)]), "cannot be"),
    "not a number": (lambda w: torch.cat([w[:4], torch.full((4,), 255, dtype=torch.uint8), w[8:]]), "not finite"),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_what_is_no_payload_is_refused_and_the_others_go_on(kind, tmp_path):
    change, told = CRAFTED[kind]

    def craft(outcome):
        return (
            replace(outcome, upload={**outcome.upload, "w": change(outcome.upload["w"])})
            if outcome.client == 2
            else outcome
        )

    federation = federation_of(method="fedavg", upload_codec="topk:0.01")
    records, model = all_rounds(federation, engine_of(federation, NearGrid(tmp_path, craft)))
    for record in records:
        assert list(record.refused) == [2]
        assert re.search(told, record.refused[2]), record.refused
    assert all(bool(torch.isfinite(vector.double()).all()) for vector in model.values())


@pytest.mark.parametrize(
    ("codec", "told"), [("eden:1", "a scale is nan"), ("sign", "a scale is nan"), ("qsgd:7", "a level is 8")]
)
def test_a_scale_or_a_level_that_cannot_be_is_refused_and_the_others_go_on(codec, told, tmp_path):
    def craft(outcome):
        payload = outcome.upload["w"].clone()
        if codec == "qsgd:7":
            payload[-1] = 255
        else:
            payload[:4] = 255
        return replace(outcome, upload={**outcome.upload, "w": payload}) if outcome.client == 2 else outcome

    federation = federation_of(method="fedavg", upload_codec=codec)
    records, model = all_rounds(federation, engine_of(federation, NearGrid(tmp_path, craft)))
    assert [list(record.refused) for record in records] == [[2]] * 3
    assert all(record.refused[2].startswith(f"'w': {told}") for record in records)
    assert bool(torch.isfinite(model["w"]).all())
