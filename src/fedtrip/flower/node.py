"""A node: its settings, its client's data, its client's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation, prepare
from fedtrip.flower.node_memory import NodeMemory
from fedtrip.flower.own_data import NODES, node_federation, samples_of
from fedtrip.flower.records import RemoteJob, RunIdentity
from fedtrip.inputs import sliced
from fedtrip.training.client import Outcome
from fedtrip.training.workbench import Workbench

CLIENT, DATA, DATA_DIR, MEMORY_DIR = "partition-id", "data", "data-dir", "memory-dir"
"""What `--node-config` may say; the first is Flower's own name for the number of a node's client."""


class Node:
    """One node in one run."""

    def __init__(self, config: Mapping[str, Any], run: RunIdentity) -> None:
        experiment = Experiment.from_text(run.experiment)
        if experiment.dataset == NODES and DATA not in config:
            raise UserError(f"the node has no {DATA}; accepted: --node-config '{DATA}=\"package.module:load\" ...'")
        own = tuple(sorted(config.items())) if experiment.dataset == NODES else None
        self._federation, self._bench = _workbench(run, own, config.get(DATA_DIR))
        self.client = _client(config, self._federation.partition.clients)
        folder = Path(config[MEMORY_DIR]) if MEMORY_DIR in config else user_state_path("fedtrip") / "flower"
        self._memory = NodeMemory(folder.expanduser(), run.key, self.client)

    @property
    def samples(self) -> int:
        """n_k of the node's client."""
        return self._federation.partition.samples(self.client)

    def do(self, job: RemoteJob) -> Outcome:
        """The client's part of an exchange; what it remembers of it is on the disk before the server hears of it."""
        if job.client != self.client:
            raise UserError(f"the job is for client {job.client}, this node is client {self.client}")
        last = self._federation.method.exchanges - 1
        start = (job.memory_round, last) if job.exchange == 0 else (job.round, job.exchange - 1)
        outcome = self._bench.client(job.with_memory(self._memory.load(*start)))
        self._memory.save(outcome.memory, job.exchange, started_from=job.memory_round)
        return outcome

    def forget(self) -> None:
        """The run is over."""
        self._memory.forget()


@lru_cache(maxsize=2)
def _workbench(
    run: RunIdentity, own: tuple[tuple[str, Any], ...] | None, data_dir: str | None
) -> tuple[Federation, Workbench]:
    """The place of work for a run; a simulation's processes, which do many clients' work, make it once."""
    experiment = Experiment.from_text(run.experiment)
    if own is not None:
        config = dict(own)
        federation = node_federation(experiment, samples_of(config[DATA], config, experiment), run.classes, run.inputs)
    else:
        federation = prepare(experiment, data_dir=data_dir)
        whole = federation.dataset
        federation = replace(
            federation, dataset=replace(whole, x_test=sliced(whole.x_test, slice(0)), y_test=whole.y_test[:0])
        )
    return federation, Workbench(federation)


def _client(config: Mapping[str, Any], clients: int) -> int:
    client = config.get(CLIENT)
    if not isinstance(client, int) or not 0 <= client < clients:
        raise UserError(f"the node's {CLIENT} is {client!r}; accepted: the number of its client, 0 to {clients - 1}")
    return client
