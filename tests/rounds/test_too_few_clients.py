"""A round that too few clients answer is tried again, then ends the run as it was before that round."""

from dataclasses import replace

import pytest

import fedtrip
from fedtrip import Experiment
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.methods.interface import Memory
from fedtrip.rounds.loop import rounds
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import TooFewClients, initial_state
from fedtrip.runs.running import run_federation


class Unreliable(SerialEngine):
    """The serial engine, some of whose answers are lost: `lost` are the attempts at round 2 in which client 0 is."""

    def __init__(self, federation, lost):
        super().__init__(federation)
        self.lost, self.attempts = lost, 0

    def work(self, jobs):
        self.attempts += jobs[0].round == 2 and jobs[0].exchange == 0
        away = jobs[0].round == 2 and self.attempts in self.lost
        for outcome in super().work(jobs):
            if away and outcome.client == 0:
                outcome = replace(outcome, samples=0, upload={}, memory=Memory(), problem="no answer")
            yield outcome


@pytest.fixture(params=["fedtrip", "feddane"])
def federation(blobs, request):
    small = {"rounds": 3, "clients": 3, "per_round": 3, "samples_per_client": 20}
    return prepare(Experiment(method=request.param, **small), data=fedtrip.from_arrays(**blobs))


def run(federation, lost, min_clients):
    engine, state = Unreliable(federation, lost), initial_state(federation, ClientStore())
    return engine, state, [record for record, _ in rounds(federation, engine, state, (), min_clients)]


def test_a_round_that_is_tried_again_leaves_no_trace(federation):
    engine, state, records = run(federation, lost={1, 2}, min_clients=3)
    assert engine.attempts == 3
    assert not any(record.refused for record in records)
    undisturbed = run(federation, lost=set(), min_clients=3)[1]
    assert state.server.w.equal(undisturbed.server.w)


def test_the_run_ends_after_three_attempts_with_the_state_of_the_round_before(federation):
    engine, state = Unreliable(federation, {1, 2, 3}), initial_state(federation, ClientStore())
    with pytest.raises(TooFewClients, match=r"round 2: 2 of 3 .* min-clients is 3 \(client 0: no answer\)"):
        list(rounds(federation, engine, state, (), 3))
    assert (engine.attempts, state.round) == (3, 1)


def test_enough_clients_are_enough_and_the_lost_one_keeps_its_memory(federation):
    engine, state, records = run(federation, lost={1}, min_clients=2)
    assert engine.attempts == 1
    assert [dict(record.refused) for record in records] == [{}, {0: "no answer"}, {}]
    assert state.round == 3


def test_one_machine_asks_for_nothing(federation):
    assert len(run_federation(federation, workers=1).records) == 3
