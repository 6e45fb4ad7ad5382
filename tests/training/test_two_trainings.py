"""A method that trains more than once in a round: each training has an optimizer of its own, and goes on with it."""

from dataclasses import dataclass, replace

import pytest
import torch
from tests.reference.setting import Setting

from fedtrip.engines.serial import SerialEngine
from fedtrip.methods.interface import Memory, Method, Reply
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job


@dataclass(frozen=True)
class TrainsTwice(Method):
    """The second training goes on from the first one's model."""

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(upload=local.train(local.train(received)))


@dataclass(frozen=True)
class TrainsInBothExchanges(Method):
    exchanges = 2

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(upload=local.train(received))


def doing(setting, method=None):
    """A client's outcome under this method, or FedAvg's, as a function of what it starts from."""
    federation = setting.federation("fedavg")
    if method is not None:
        federation = replace(federation, rules=replace(federation.rules, method=method))
    engine, received = SerialEngine(federation), initial_state(federation, ClientStore()).server.model

    def outcome(w=None, memory=None, t=1, exchange=0):
        given = received if w is None else {**received, "w": w}
        with torch.random.fork_rng(devices=[]):
            return next(engine.work([Job(1, t, exchange, given, memory or Memory())]))

    return outcome


def with_momentum(vector):
    return Memory({}, 1, optimizer={"1.momentum": vector})


@pytest.mark.parametrize("keep", [False, True])
def test_the_second_starts_with_its_own_state(keep):
    setting = Setting(momentum=0.9, keep_optimizer_state=keep)
    once, twice = doing(setting), doing(setting, TrainsTwice())
    first = once().upload["w"]
    assert torch.equal(twice().upload["w"], once(first).upload["w"])
    with_the_firsts = doing(setting.but(keep_optimizer_state=True))(first, with_momentum(torch.ones_like(first)))
    assert not torch.equal(twice().upload["w"], with_the_firsts.upload["w"])  # a momentum would be seen


def test_each_goes_on_with_its_own_in_the_clients_next_round():
    setting = Setting(momentum=0.9, keep_optimizer_state=True)
    once, twice = doing(setting), doing(setting, TrainsTwice())
    before = twice().memory
    assert before.optimizer.keys() == {"1.momentum", "2.momentum"}
    assert not torch.equal(before.optimizer["1.momentum"], before.optimizer["2.momentum"])
    first = once(memory=with_momentum(before.optimizer["1.momentum"]), t=2)
    second = once(first.upload["w"], with_momentum(before.optimizer["2.momentum"]), t=2)
    after = twice(memory=before, t=2)
    assert torch.equal(after.upload["w"], second.upload["w"])
    assert torch.equal(after.memory.optimizer["1.momentum"], first.memory.optimizer["1.momentum"])
    assert torch.equal(after.memory.optimizer["2.momentum"], second.memory.optimizer["1.momentum"])


def test_nothing_is_kept_where_nothing_is_asked_for():
    assert doing(Setting(momentum=0.9), TrainsTwice())().memory.optimizer == {}


def test_the_trainings_of_two_exchanges_are_two():
    setting = Setting(momentum=0.9, keep_optimizer_state=True)
    once, both = doing(setting), doing(setting, TrainsInBothExchanges())
    first = both()
    second = both(first.upload["w"], first.memory, exchange=1)
    assert torch.equal(second.upload["w"], once(first.upload["w"]).upload["w"])
    assert len(second.memory.optimizer) == 2
    again = both(memory=second.memory, t=2)
    assert torch.equal(
        again.upload["w"], once(memory=with_momentum(first.memory.optimizer["1.momentum"]), t=2).upload["w"]
    )
