"""How many copies of its model a federation holds: `python -m bench.copies [PARAMETERS]` (default: 25 million).

The most memory that all processes of a run take together, over that of the same run with a tiny model, divided by the
size of the model. It counts everything from the user's own module to the checkpoint, and what the C library keeps of
what was freed. Each case is measured in a process of its own.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from bench.watch import Watch
from fedtrip import Experiment, from_arrays
from fedtrip.data import DataSet
from fedtrip.engines.base import Engine
from fedtrip.engines.pool import PoolEngine
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.runs.folder import Destination
from fedtrip.runs.running import run_federation
from fedtrip.training.prepared_model import PreparedModel

PARAMETERS = 25_000_000
LAYERS, INPUTS, CLASSES, ROUNDS = 6, 64, 10, 3


@dataclass(frozen=True)
class Case:
    """A federation of which three of six clients take part in a round."""

    method: str
    workers: int
    client_memory: int | None = None
    """bytes of the clients' memories that may be kept in RAM"""

    def __str__(self) -> str:
        kept = ", memories on disk" if self.client_memory is not None else ""
        return f"{self.method}, {self.workers} worker{'s' * (self.workers > 1)}{kept}"


CASES = [
    *(Case("fedavg", workers) for workers in (1, 2)),
    *(Case("fedtrip", workers, kept) for workers in (1, 2) for kept in (None, 1)),
]


def copies(case: Case, parameters: int = PARAMETERS) -> float:
    """The copies of a model of about so many parameters that this federation holds at its peak."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(_copies, case, parameters).result()


def _copies(case: Case, parameters: int) -> float:
    torch.set_num_threads(1)
    width = round(math.sqrt(parameters / LAYERS))
    for _ in range(2):  # the first run loads libraries
        tiny, _ = _peak(case, 8)
    whole, size = _peak(case, width)
    return (whole - tiny) / size


def _peak(case: Case, width: int) -> tuple[int, int]:
    """The most bytes that a run takes, and those of its model."""
    with Watch() as watch, tempfile.TemporaryDirectory() as folder:
        module = _layers(width)
        experiment = Experiment(
            method=case.method, clients=6, per_round=3, samples_per_client=20, batch_size=20, rounds=ROUNDS, lr=0.001
        )
        run_federation(
            prepare(experiment, model=module, data=_data()),
            destination=Destination(Path(folder) / "run", every=1),
            client_memory=case.client_memory,
            open_engine=lambda federation, prepared: _engine(federation, prepared, case.workers),
        )
    return watch.most, 4 * sum(parameter.numel() for parameter in module.parameters())


@contextmanager
def _engine(federation: Federation, prepared: PreparedModel, workers: int) -> Iterator[Engine]:
    """An engine all of whose workers are there from the beginning: otherwise it would depend on when they are."""
    engine: Engine
    if workers == 1:
        engine = SerialEngine(federation, prepared)
    else:
        engine = PoolEngine(federation, workers, prepared)
        engine.wait_until_ready()
    try:
        yield engine
    finally:
        engine.close()


def _layers(width: int) -> nn.Module:
    between = [layer for _ in range(LAYERS) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), *between, nn.Linear(width, CLASSES))


def _data() -> DataSet:
    generator = torch.Generator().manual_seed(0)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = torch.randn(count, INPUTS, generator=generator)
        return inputs, torch.randint(0, CLASSES, (count,), generator=generator)

    return from_arrays(*part(150), *part(20))


def main() -> None:
    """Measure all cases and print them."""
    parameters = int(float(sys.argv[1])) if sys.argv[1:] else PARAMETERS
    for case in CASES:
        print(f"{case}: {copies(case, parameters):.1f} copies", flush=True)


if __name__ == "__main__":
    main()
