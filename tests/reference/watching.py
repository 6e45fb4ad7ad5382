"""Serial engines that spoil some uploads, or keep what travels, and runs with them."""

import math
from dataclasses import replace

import torch
from tests.reference.naive_methods import flat

from fedtrip.engines.serial import SerialEngine
from fedtrip.rounds.loop import initial_state, one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.training.flat_model import FlatModel


class FailingEngine:
    """A serial engine whose clients upload NaN in the given (round, client)."""

    def __init__(self, federation, failures):
        self._engine, self._failures = SerialEngine(federation), failures

    def clients(self, tasks):
        outcomes = list(self._engine.clients(tasks))
        for i, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
            if (task.round, task.client) in self._failures and "w" in outcome.upload:
                spoilt = outcome.upload["w"].clone()
                spoilt[-1] = math.nan
                outcomes[i] = replace(outcome, upload={**outcome.upload, "w": spoilt})
        return outcomes

    def evaluate(self, model):
        return self._engine.evaluate(model)


class Wire:
    """A serial engine that keeps what went down to every client and what came up, by (round, exchange, client)."""

    def __init__(self, federation):
        self._engine, self.down, self.up = SerialEngine(federation), {}, {}

    def clients(self, tasks):
        outcomes = self._engine.clients(tasks)
        for task, outcome in zip(tasks, outcomes, strict=True):
            key = (task.round, task.exchange, task.client)
            self.down[key], self.up[key] = task.received, outcome.upload
        return outcomes

    def evaluate(self, model):
        return self._engine.evaluate(model)

    def names(self, direction, round_number, exchange=0):
        """The names of what travelled, the same for every client of the exchange."""
        (names,) = {tuple(v) for (t, e, _), v in direction.items() if (t, e) == (round_number, exchange)}
        return set(names)


def watched(setting, method, **options):
    """The wire, the records and the states after every round of a run (copies: the server and all memories)."""
    federation = setting.federation(method, **options)
    wire, state = Wire(federation), initial_state(federation, ClientStore())
    records, history = [], []
    with torch.random.fork_rng(devices=[]):
        for _ in range(setting.rounds):
            records.append(one_round(federation, wire, state)[0])
            history.append((state.server, [state.memories.get(k) for k in range(len(setting.pairs))]))
    return wire, records, history


def bytes_of(setting):
    """Bytes of w, and of w with all buffers."""
    buffers = sum(buffer.nbytes for buffer in setting.module.buffers())
    return 4 * flat(setting.module).numel(), 4 * flat(setting.module).numel() + buffers


def run_with_failures(setting, failures, method, **options):
    """The library's state after the last round, its records and its model as a state dict, some uploads being NaN."""
    federation = setting.federation(method, **options)
    engine, state = FailingEngine(federation, failures), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        records = [one_round(federation, engine, state)[0] for _ in range(setting.rounds)]
    return state, records, named(federation, state.server.model)


def named(federation, model):
    """A model of flat vectors as a state dict; in which order parameters lie in a vector is the library's affair."""
    return FlatModel(federation.module, federation.dataset.sample_shape).state_dict(model)
