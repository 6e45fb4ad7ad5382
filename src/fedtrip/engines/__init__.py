"""Engines: how the map over clients is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedtrip.cores import usable_cores
from fedtrip.engines.base import Engine
from fedtrip.engines.pool import PoolEngine
from fedtrip.engines.serial import SerialEngine
from fedtrip.errors import UserError
from fedtrip.experiment.federation import Federation
from fedtrip.training.prepared_model import PreparedModel


def worker_count(workers: int | None) -> int:
    """How many processes were asked for; by default as many as there are cores to use."""
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}; accepted: at least 1")
    return workers or usable_cores()


@contextmanager
def make_engine(
    federation: Federation, prepared: PreparedModel | None = None, workers: int | None = None
) -> Iterator[Engine]:
    """An engine for this federation with so many workers (default: the cores), closed at the end.

    `prepared` is the federation's model, if it was made ready in this process before.
    """
    count = min(worker_count(workers), federation.experiment.per_round)
    engine: Engine
    engine = SerialEngine(federation, prepared) if count == 1 else PoolEngine(federation, count, prepared)
    try:
        yield engine
    finally:
        engine.close()
