"""Large models: `python -m bench.sizes [--quick]`. Nothing else should run meanwhile.

Transformers of 25 and 110 million parameters with FedAvg on one worker: the most memory and the time of a round, over
those of a plain loop, which adds up what clients send as it comes. Each is measured in a process of its own, with one
thread; no run folder, since the plain loop writes none. Then what a federation of 1,000 clients with a ResNet-18 (11
million parameters) and FedTrip is told before its first round that clients will keep.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from bench.plain import PlainLoop
from bench.watch import Watch
from fedtrip import Experiment, from_arrays
from fedtrip.data import DataSet
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.models import Outputs
from fedtrip.models.transformer import Transformer
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.runs.room import expected_memory, tell_room
from fedtrip.runs.running import run_federation

MEMORY_BAR, TIME_BAR = 1.6, 1.1
CLIENTS, SAMPLES, TEST, PLACES, CLASSES, LR = 4, 100, 50, 16, 4, 0.01


@dataclass(frozen=True)
class Size:
    """A transformer."""

    vocabulary: int
    width: int
    layers: int
    rounds: int = 4

    def module(self) -> nn.Module:
        """It, with torch's initial weights."""
        torch.manual_seed(0)
        return Transformer((PLACES,), self.vocabulary, Outputs.of_classes(CLASSES), self.width, 8, self.layers)

    def dataset(self) -> DataSet:
        """Random token ids and classes."""
        generator = torch.Generator().manual_seed(0)

        def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
            ids = torch.randint(0, self.vocabulary, (count, PLACES), generator=generator)
            return ids, torch.randint(0, CLASSES, (count,), generator=generator)

        return from_arrays(*part(CLIENTS * SAMPLES), *part(TEST), classes=CLASSES)

    def federation(self) -> Federation:
        """FedAvg with all clients in every round."""
        experiment = Experiment(
            method="fedavg", clients=CLIENTS, per_round=CLIENTS, samples_per_client=SAMPLES, partition="iid",
            draw="disjoint", batch_size=50, momentum=0.9, lr=LR, rounds=self.rounds,
        )  # fmt: skip
        return prepare(experiment, model=self.module(), data=self.dataset())


SIZES = {"25 M": Size(1_000, 512, 8), "110 M": Size(32_000, 768, 12)}
QUICK = {"0.1 M": Size(100, 64, 2, rounds=2)}


@dataclass(frozen=True)
class Measured:
    """What a program took."""

    parameters: int
    bytes: int
    seconds: float
    """of a round, the median without the first"""


class LeanLoop(PlainLoop):
    """The plain loop without a list of all clients' models."""

    def round(self) -> float:
        """Train every client from the global model, add its parameters to the sum, evaluate their mean."""
        total: dict[str, torch.Tensor] = {}
        for loader in self.clients:
            for name, value in self._train(loader).items():
                total[name] = total[name].add_(value) if name in total else value
        self.model.load_state_dict({name: value.div_(len(self.clients)) for name, value in total.items()})
        return self._accuracy()


def with_plain_loop(size: Size) -> Measured:
    """The plain loop's rounds."""
    torch.set_num_threads(1)
    with Watch() as watch:
        data = size.dataset()
        shares = [list(range(k * SAMPLES, (k + 1) * SAMPLES)) for k in range(CLIENTS)]
        loop = LeanLoop(size.module(), (data.x_train, data.y_train), (data.x_test, data.y_test), shares)
        seconds = []
        for _ in range(size.rounds):
            began = time.perf_counter()
            loop.round()
            seconds.append(time.perf_counter() - began)
    return Measured(_parameters(loop.model), watch.most, statistics.median(seconds[1:]))


def with_fedtrip(size: Size) -> Measured:
    """fedtrip's rounds."""
    torch.set_num_threads(1)
    with Watch() as watch:
        federation = size.federation()
        result = run_federation(federation, workers=1)
    return Measured(
        _parameters(federation.module), watch.most, statistics.median(record.seconds for record in result.records[1:])
    )


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def apart(program: Callable[[Size], Measured], size: Size) -> Measured:
    """What a program takes in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(program, size).result()


def told_of_the_store(model: str, clients: int) -> int:
    """Bytes that all clients of a federation with FedTrip will keep; what a run says of it goes to stderr."""
    images = torch.zeros(2, 3, 32, 32)
    experiment = Experiment(
        method="fedtrip", model=model, clients=clients, per_round=10, samples_per_client=1, partition="iid",
        rounds=10 * clients, task="classification",
    )  # fmt: skip
    data = from_arrays(images, torch.arange(2), images, torch.arange(2), mean=(0.0,), std=(1.0,), classes=10)
    federation = prepare(experiment, data=data)
    state = initial_state(federation, ClientStore())
    size = expected_memory(federation, state)
    assert size is not None
    with tempfile.TemporaryDirectory() as folder:
        tell_room(federation.experiment, state, size, Path(folder))
    return clients * size


def main() -> None:
    """Measure all sizes and print them beside their bars."""
    parser = argparse.ArgumentParser(prog="python -m bench.sizes", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny model: only to see that it runs")
    quick = parser.parse_args().quick
    logging.basicConfig(format="%(message)s")
    for name, size in (QUICK if quick else SIZES).items():
        plain, ours = apart(with_plain_loop, size), apart(with_fedtrip, size)
        memory, duration = ours.bytes / plain.bytes, ours.seconds / plain.seconds
        print(f"{name}: {ours.parameters:,} parameters; fedtrip's over the plain loop's:")
        print(f"  memory {ours.bytes / 1e9:.2f} GB / {plain.bytes / 1e9:.2f} GB = {memory:.2f} (bar {MEMORY_BAR})")
        print(f"  a round {ours.seconds:.2f} s / {plain.seconds:.2f} s = {duration:.2f} (bar {TIME_BAR})", flush=True)
    model, clients = ("resnet8", 1000) if quick else ("resnet18", 1000)
    print(f"FedTrip, {model}, {clients:,} clients: {told_of_the_store(model, clients) / 1e9:.2f} GB kept")


if __name__ == "__main__":
    main()
