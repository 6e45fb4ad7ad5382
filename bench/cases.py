"""What is measured: five models on random data of the right shapes (times do not depend on values)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from bench.plain import PlainLoop
from fedtrip.data import DataSet, from_arrays
from fedtrip.engines.base import Engine
from fedtrip.engines.pool import PoolEngine
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.rounds.loop import one_round
from fedtrip.rounds.state import initial_state
from fedtrip.runs.folder import Destination
from fedtrip.runs.writer import RunWriter
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import Job, Outcome
from fedtrip.training.workbench import Question


@dataclass(frozen=True)
class Case:
    """A model with its data: samples a client, 4 clients a round, test images."""

    model: str | Callable[[], nn.Module]
    """the name of a built-in one, or what makes the module"""
    shape: tuple[int, ...]
    samples: int
    test: int
    at_once: int
    """rounds in a row in a turn, so that a turn is long enough to be measured"""
    methods: tuple[str, ...] = ("fedtrip",)
    """whose training is measured against FedAvg's"""

    def dataset(self) -> DataSet:
        """Random images and labels."""
        generator = torch.Generator().manual_seed(0)
        train = 10 * self.samples

        def images(count: int) -> torch.Tensor:
            return torch.randint(0, 256, (count, *self.shape), dtype=torch.uint8, generator=generator)

        def labels(count: int) -> torch.Tensor:
            return torch.randint(0, 10, (count,), generator=generator)

        return from_arrays(images(train), labels(train), images(self.test), labels(self.test))

    def federation(self, module: nn.Module | None = None, /, **changes: object) -> Federation:
        """The case as fedtrip runs it: FedAvg, 4 of 10 clients, batch 50, one epoch; with another module if given."""
        fields = {
            "method": "fedavg", "partition": "iid", "draw": "disjoint", "samples_per_client": self.samples,
            "momentum": 0.9, "rounds": 10_000, **changes,
        }  # fmt: skip
        if isinstance(self.model, str):
            fields["model"] = self.model
        elif module is None:
            torch.manual_seed(0)
            module = self.model()
        return prepare(Experiment(**fields), model=module, data=self.dataset())

    def plain(self) -> PlainLoop:
        """The case as the plain loop runs it, with inputs that are normalised already."""
        federation = self.federation()
        data = federation.dataset
        shares = [federation.partition.share(client).tolist() for client in range(4)]
        train = (data.normalised(data.x_train), data.y_train)
        return PlainLoop(federation.module, train, (data.normalised(data.x_test), data.y_test), shares)


def small3() -> nn.Module:
    """A small net for colour images: three 3×3 convolutions of 16, 32 and 32 channels."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


MANY_METHODS = ("fedtrip", "fedprox", "feddyn", "moon", "fedgkd")
CASES = {
    "mlp": Case("mlp", (1, 28, 28), 600, 10_000, at_once=10, methods=MANY_METHODS),
    "cnn": Case("cnn", (1, 28, 28), 600, 10_000, at_once=3, methods=MANY_METHODS),
    "small3": Case(small3, (3, 32, 32), 600, 2_000, at_once=2),
    "mcmahan": Case("cnn-mcmahan", (1, 28, 28), 600, 2_000, at_once=1),
    "alexnet": Case("alexnet", (3, 32, 32), 100, 500, at_once=1),
}


@dataclass
class Parts:
    """Seconds of the parts of a round."""

    training: list[float] = field(default_factory=list)
    evaluation: list[float] = field(default_factory=list)
    checkpoint: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


class Timed:
    """An engine with a stop-watch."""

    def __init__(self, engine: Engine, parts: Parts) -> None:
        self._engine, self._parts = engine, parts

    def work(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The jobs; their time is what is waited for them, without what is done with an outcome meanwhile."""
        outcomes = self._engine.work(jobs)
        self._parts.training.append(0.0)
        for _ in jobs:
            began = time.perf_counter()
            outcome = next(outcomes)
            self._parts.training[-1] += time.perf_counter() - began
            yield outcome

    def score(self, questions: Sequence[Question]) -> list[Sums]:
        began = time.perf_counter()
        sums = self._engine.score(questions)
        self._parts.evaluation.append(time.perf_counter() - began)
        return sums

    def close(self) -> None:
        self._engine.close()


class FedtripRounds:
    """A federation whose rounds can be run one by one, with metrics and checkpoints written as in any run."""

    def __init__(self, federation: Federation, workers: int, folder: Path) -> None:
        self.parts = Parts()
        engine: Engine
        if workers == 1:
            engine = SerialEngine(federation)
        else:
            engine = PoolEngine(federation, workers)
            engine.wait_until_ready()
        self._federation, self._engine = federation, Timed(engine, self.parts)
        self._writer = RunWriter(Destination(folder, every=1), federation.experiment)
        self._state = initial_state(federation, self._writer.checkpoint.store)
        self._writer.continue_from(self._state)
        self.taken_part: set[int] = set()
        """the clients that have trained, and have a memory"""

    def round(self) -> None:
        began = time.perf_counter()
        done = one_round(self._federation, self._engine, self._state)
        self._state.advance(done)
        self.taken_part |= set(done.record.clients)
        middle = time.perf_counter()
        self._writer.record(done.record, self._state)
        now = time.perf_counter()
        self.parts.checkpoint.append(now - middle)
        self.parts.whole.append(now - began)

    def close(self) -> None:
        self._engine.close()
        self._writer.close()


@contextmanager
def fedtrip_rounds(federation: Federation, workers: int) -> Iterator[FedtripRounds]:
    """Rounds of a federation in a temporary run folder."""
    with tempfile.TemporaryDirectory() as folder:
        rounds = FedtripRounds(federation, workers, Path(folder) / "run")
        try:
            yield rounds
        finally:
            rounds.close()
