"""Serial engines that spoil some uploads, or keep what travels, and runs with them."""

import math
from dataclasses import replace

import torch
from tests.reference.naive_methods import flat

from fedtrip.engines.serial import SerialEngine
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.flat_model import FlatModel


class FailingEngine:
    """A serial engine whose clients upload NaN in the given (round, client)."""

    def __init__(self, federation, failures):
        self._engine, self._failures = SerialEngine(federation), failures

    def work(self, jobs):
        for job, outcome in zip(jobs, self._engine.work(jobs), strict=True):
            if (job.round, job.client) in self._failures and "w" in outcome.upload:
                spoilt = outcome.upload["w"].clone()
                spoilt[-1] = math.nan
                yield replace(outcome, upload={**outcome.upload, "w": spoilt})
            else:
                yield outcome

    def score(self, questions):
        return self._engine.score(questions)


class Wire:
    """A serial engine that keeps what went down to every client and what came up, by (round, exchange, client)."""

    def __init__(self, federation):
        self._engine, self.down, self.up = SerialEngine(federation), {}, {}

    def work(self, jobs):
        for job, outcome in zip(jobs, self._engine.work(jobs), strict=True):
            key = (job.round, job.exchange, job.client)
            self.down[key], self.up[key] = job.received, outcome.upload
            yield outcome

    def score(self, questions):
        return self._engine.score(questions)

    def names(self, direction, round_number, exchange=0):
        """The names of what travelled, the same for every client of the exchange."""
        (names,) = {tuple(v) for (t, e, _), v in direction.items() if (t, e) == (round_number, exchange)}
        return set(names)


def advance(federation, engine, state):
    """One round, its outcome taken over; its record."""
    done = one_round(federation, engine, state)
    state.advance(done)
    return done.record


def watched(setting, method, **options):
    """The wire, the records and the states after every round of a run (copies: the server and all memories)."""
    federation = setting.federation(method, **options)
    wire, state = Wire(federation), initial_state(federation, ClientStore())
    records, history = [], []
    with torch.random.fork_rng(devices=[]):
        for _ in range(setting.rounds):
            records.append(advance(federation, wire, state))
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
        records = [advance(federation, engine, state) for _ in range(setting.rounds)]
    return state, records, named(federation, state.server.model)


def named(federation, model):
    """A model of flat vectors as a state dict; in which order parameters lie in a vector is the library's affair."""
    return FlatModel(federation.module, federation.dataset.sample_shape).state_dict(model)
