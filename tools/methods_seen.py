"""What each method sends, keeps and computes, seen in a small run of it: for `tools.methods_page`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor, nn

from fedtrip.comparison.method_costs import SETTLED_ROUND
from fedtrip.data import from_arrays
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.layout import Layout
from fedtrip.methods.interface import Method, make_method
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.workbench import Question
from fedtrip.vectors import size_in_bytes

SHAPE, CLASSES, SAMPLES, BATCH = (1, 8, 8), 10, 200, 50
SEED = 0
"""Its third round has the client of the first, and not that of the second: one who comes back after a pause."""
BUFFERS = ("buffers", "counters")
"""The vectors of a model beside w: they travel with it and are averaged, outside every method."""

Sizes = dict[str, int]
"""Vectors by name, and how many numbers each holds."""


def network() -> nn.Module:
    """A body, a layer that normalises, and a head: so that it shows which parts of a model a method sends."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 100), nn.BatchNorm1d(100), nn.ReLU(), nn.Linear(100, CLASSES)
        )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What one client and the server did in one round."""

    down: list[Sizes]
    """for each exchange of the round"""
    up: list[Sizes]
    client: Sizes
    """what the client keeps until its next round: its method's vectors"""
    personal: Sizes
    """the parts of the model that never travel"""
    server: Sizes
    bytes_down: int
    bytes_up: int
    bytes_client: int
    bytes_server: int
    macs: int


@cache
def seen(name: str) -> Seen:
    """One client's round with this method, when it has settled."""
    return run_of(make_method(name, {}, model="mlp", dataset="digits"))


def run_of(method: Method) -> Seen:
    """The same of a method that is made."""
    federation = _federation(method)
    wire, state = _Wire(federation), initial_state(federation, ClientStore())
    came = []
    with torch.random.fork_rng(devices=[]):
        for _ in range(SETTLED_ROUND):
            wire.forget()
            done = one_round(federation, wire, state)
            state.advance(done)
            came.append(done.record.clients)
    assert came[0] == came[2] != came[1], came
    memory, own = state.memories.get(came[2][0]), state.server.state
    assert done.record.bytes_down == wire.bytes_down, "the counter and the wire disagree"
    assert done.record.bytes_up == wire.bytes_up, "the counter and the wire disagree"
    return Seen(
        down=wire.down,
        up=wire.up,
        client=_sizes(memory.vectors),
        personal=_sizes(memory.personal),
        server=_sizes(own),
        bytes_down=done.record.bytes_down,
        bytes_up=done.record.bytes_up,
        bytes_client=done.record.client_memory,
        bytes_server=size_in_bytes(own),
        macs=done.record.macs,
    )


def layout() -> Layout:
    """Where the parts of the network lie."""
    return FlatModel(network(), SHAPE).layout


def in_words(numbers: int) -> str:
    """How many numbers a vector has, in the letters of the page: multiples of |w|, or parts of the model."""
    parts = layout()
    whole = parts.size("w")
    body = frozenset(parts.parts) - parts.head
    named = {"head": parts.head, "body": body, "norm layers": parts.norms}
    sizes = {int(parts.mask(names, "w").sum()): f"|{word}|" for word, names in named.items()}
    norms = int(parts.mask(parts.norms, "w").sum())
    known = {whole: "|w|", **sizes, whole - norms: "|w| − |norm layers|"}
    if numbers in known:
        return known[numbers]
    return f"{numbers // whole}|w|" if numbers and numbers % whole == 0 else str(numbers)


def _federation(method: Method) -> Federation:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(2 * SAMPLES, *SHAPE, generator=generator), torch.arange(2 * SAMPLES) % CLASSES
    experiment = Experiment(
        method=method, clients=2, per_round=1, samples_per_client=SAMPLES, batch_size=BATCH, partition="iid",
        rounds=SETTLED_ROUND, eval_every=SETTLED_ROUND, lr=1e-3, seed=SEED,
    )  # fmt: skip
    return prepare(experiment, model=network(), data=from_arrays(x, y, x, y, mean=(0.0,), std=(1.0,), classes=CLASSES))


def _sizes(vectors: Mapping[str, Tensor]) -> Sizes:
    return {name: vector.numel() for name, vector in vectors.items() if vector.numel()}


@dataclass
class _Wire:
    """A serial engine that notes what goes down and comes up in a round."""

    federation: Federation
    down: list[Sizes] = field(default_factory=list)
    up: list[Sizes] = field(default_factory=list)
    bytes_down: int = 0
    bytes_up: int = 0

    def __post_init__(self) -> None:
        self._engine = SerialEngine(self.federation)

    def forget(self) -> None:
        """Begin a round."""
        self.down, self.up, self.bytes_down, self.bytes_up = [], [], 0, 0

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        for job, outcome in zip(jobs, self._engine.work(jobs), strict=True):
            self.down.append(_sizes(job.received))
            self.up.append(_sizes(outcome.upload))
            self.bytes_down += size_in_bytes(job.received)
            self.bytes_up += size_in_bytes(outcome.upload)
            yield outcome

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        return self._engine.score(questions)

    def close(self) -> None:
        """Nothing to free."""
