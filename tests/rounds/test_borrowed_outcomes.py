"""Outcomes that lie in memory which the engine uses again: whatever a round keeps of them is a copy."""

from dataclasses import replace

import pytest
import torch
from tests.reference.watching import advance

import fedtrip
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.one_thread import one_thread
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state


class Lender(SerialEngine):
    """Spoils every vector of an outcome as soon as the next one is asked for."""

    def work(self, jobs):
        for outcome in super().work(jobs):
            lent = replace(outcome, upload=copies(outcome.upload), memory=outcome.memory.copied(), is_borrowed=True)
            yield lent
            for vector in (*lent.upload.values(), *lent.memory.packed().values()):
                vector.fill_(77)


def copies(vectors):
    return {name: vector.clone() for name, vector in vectors.items()}


def gone_through(federation, engine):
    state = initial_state(federation, ClientStore())
    with one_thread():
        for _ in range(3):
            advance(federation, engine, state)
    memories = [state.memories.get(client).packed() for client in range(federation.experiment.clients)]
    everything = [state.server.model, state.server.state, *memories]
    return [{name: vector.numpy().tobytes() for name, vector in vectors.items()} for vectors in everything]


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "fedavg"},
        {"method": "fedtrip", "keep_optimizer_state": True},
        {"method": "scaffold"},
        {"method": "feddane"},
        {"method": "moon", "upload_codec": "topk:0.2"},
        {"method": "fedavg", "combine": "median"},
    ],
    ids=lambda fields: " ".join(map(str, fields.values())),
)
def test_a_round_keeps_copies(blobs, batch_norm_model, fields):
    experiment = Experiment(clients=5, per_round=3, samples_per_client=20, rounds=3, **fields)
    federation = prepare(experiment, data=fedtrip.from_arrays(**blobs), model=batch_norm_model)
    assert gone_through(federation, Lender(federation)) == gone_through(federation, SerialEngine(federation))


def test_a_snapshot_has_the_models_that_were_sent(blobs, batch_norm_model):
    experiment = Experiment(method="fedavg", clients=5, per_round=3, samples_per_client=20, rounds=3, snapshot=(1,))
    federation = prepare(experiment, data=fedtrip.from_arrays(**blobs), model=batch_norm_model)
    with one_thread():
        lent, own = (
            one_round(federation, engine(federation), initial_state(federation, ClientStore())).details.uploads
            for engine in (Lender, SerialEngine)
        )
    assert len(lent) == 3
    for ours, theirs in zip(lent, own, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs.vectors)
