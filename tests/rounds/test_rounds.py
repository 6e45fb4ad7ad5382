"""What a round costs and who takes part, checked on the real payloads."""

from collections import Counter

import pytest

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.families import METHOD
from fedtrip.rounds.loop import rounds, selected
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state


class Wire:
    """An engine that weighs what goes down and up."""

    def __init__(self, engine):
        self._engine, self.down, self.up = engine, 0, 0

    def work(self, jobs):
        for job in jobs:
            self.down += sum(len(vector.numpy().tobytes()) for vector in job.received.values())
        for outcome in self._engine.work(jobs):
            self.up += sum(len(vector.numpy().tobytes()) for vector in outcome.upload.values())
            yield outcome

    def score(self, questions):
        return self._engine.score(questions)


@pytest.mark.parametrize("own_model", [False, True], ids=["mlp", "batch-norm"])
@pytest.mark.parametrize("method", METHOD.names())
def test_bytes_are_those_of_the_payloads(blobs, batch_norm_model, method, own_model):
    federation = prepare(
        Experiment(method=method, rounds=3, clients=5, per_round=3, samples_per_client=20, batch_size=10),
        data=fedtrip.from_arrays(**blobs),
        model=batch_norm_model if own_model else None,
    )
    engine = Wire(SerialEngine(federation))
    weights = sum(p.numel() for p in federation.module.parameters())
    buffers = sum(b.numel() * b.element_size() for b in federation.module.buffers())
    for record, _ in rounds(federation, engine, initial_state(federation, ClientStore())):
        assert (record.bytes_down, record.bytes_up) == (engine.down, engine.up)
        if method in (
            "fedtrip",
            "fedtrip-auto",
            "fedavg",
            "fedprox",
            "slowmo",
            "moon",
            "feddyn",
            "fedacg",
            "fedinit",
            "fedsam",
            "fedspeed",
            "fedlesam",
            "fedlesam-d",
        ):  # none of them sends more than the model
            assert record.bytes_down == record.bytes_up == 3 * (4 * weights + buffers)
        engine.down = engine.up = 0


def test_clients_are_drawn_uniformly_without_replacement_and_by_seed_and_round_alone():
    def federation(seed, clients=10, per_round=4):
        return prepare(Experiment(seed=seed, clients=clients, per_round=per_round, samples_per_client=10))

    seven = federation(7)
    drawn = [selected(seven, number) for number in range(1, 2001)]
    assert all(len(set(clients)) == 4 and list(clients) == sorted(clients) for clients in drawn)
    counts = Counter(client for clients in drawn for client in clients)
    assert all(700 < counts[client] < 900 for client in range(10))  # 800 expected, deviation 22
    assert drawn[41] == selected(federation(7), 42) != selected(federation(8), 42)
    assert selected(federation(7, 3, 3), 1) == (0, 1, 2)


def test_a_million_clients_cost_nothing_until_they_take_part(blobs):
    result = fedtrip.run(
        Experiment(method="fedtrip", rounds=2, clients=1_000_000, per_round=2, samples_per_client=10),
        data=blobs,
        workers=1,
    )
    assert all(0 <= client < 1_000_000 for record in result.records for client in record.clients)
