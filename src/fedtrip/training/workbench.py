"""Everything one process needs to do clients' work and to evaluate: the module, the data, the partition."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedtrip.experiment.federation import Federation
from fedtrip.training.client import FROZEN_BATCH, ClientLocal, LocalSettings, Outcome, Task, perform
from fedtrip.training.costs import pass_cost
from fedtrip.training.flat_model import FlatModel

EVALUATION_BLOCK = 2 * FROZEN_BATCH
"""Samples that are scored at once: the unit in which an evaluation is spread over workers."""
CACHED_BYTES = 128 * 2**20
"""Normalised inputs of recent clients that a process keeps, so that a federation of few clients prepares them once."""


@dataclass(frozen=True)
class BlockScore:
    """How a model did on one block of the test set."""

    loss: float
    correct: int


def block_count(samples: int) -> int:
    """How many blocks a test set of this size is evaluated in."""
    return math.ceil(samples / EVALUATION_BLOCK)


def summed_cross_entropy(logits: Tensor, y: Tensor) -> float:
    """Σ log Σ_j exp(z_j) − z_y over a block; for few classes five times faster than torch's own."""
    largest = logits.amax(1, keepdim=True)
    log_sums = (logits - largest).exp_().sum(1, keepdim=True).log_().add_(largest)
    return float(log_sums.sub_(logits.gather(1, y[:, None])).sum())


class Workbench:
    """One process' place of work. Its results depend on the federation and the arguments alone, not on what it
    did before, so any process may do any client's work."""

    def __init__(self, federation: Federation) -> None:
        experiment = federation.experiment
        assert experiment.momentum is not None
        self._method, self._partition = federation.method, federation.partition
        self._dataset = federation.dataset.with_test_inputs()
        watched = experiment.representation if federation.method.needs_representation else None
        self._flat = FlatModel(federation.module, self._dataset.sample_shape, watched)
        self._initial = self._flat.w.clone()
        self._cost = pass_cost(federation.module, self._dataset.sample_shape)
        self._settings = LocalSettings(
            seed=experiment.seed,
            epochs=experiment.local_epochs,
            batch_size=experiment.batch_size,
            lr=experiment.lr,
            momentum=experiment.momentum,
            weight_decay=experiment.weight_decay,
            keep_optimizer_state=experiment.keep_optimizer_state,
            needs_representation=federation.method.needs_representation,
            representation=experiment.representation,
        )
        self._cache: OrderedDict[int, tuple[Tensor, Tensor]] = OrderedDict()
        self._cached_bytes = 0

    def client(self, task: Task) -> Outcome:
        """Do one client's part of an exchange."""
        x, y = self._samples(task.client)
        local = ClientLocal(self._flat, self._initial, x, y, self._settings, task, self._cost)
        return perform(self._method, task, local, len(y))

    def evaluate(self, model: Mapping[str, Tensor], blocks: Sequence[int]) -> list[BlockScore]:
        """Summed loss and correct predictions on these blocks of the test set."""
        inputs = self._dataset.test_inputs
        assert inputs is not None
        self._flat.load(model)
        self._flat.module.eval()
        scores = []
        with torch.inference_mode():
            for block in blocks:
                rows = slice(block * EVALUATION_BLOCK, (block + 1) * EVALUATION_BLOCK)
                y = self._dataset.y_test[rows]
                parts = torch.split(inputs[rows], FROZEN_BATCH)
                logits = torch.cat([self._flat.logits(x) for x in parts])
                scores.append(BlockScore(summed_cross_entropy(logits, y), int((logits.argmax(1) == y).sum())))
        return scores

    def _samples(self, client: int) -> tuple[Tensor, Tensor]:
        """A client's normalised inputs and its labels, kept for its next turn as long as there is room."""
        if client in self._cache:
            self._cache.move_to_end(client)
            return self._cache[client]
        rows = self._partition.share(client)
        x, y = self._dataset.normalised(self._dataset.x_train[rows]), self._dataset.y_train[rows]
        self._cache[client] = x, y
        self._cached_bytes += x.nbytes
        while self._cached_bytes > CACHED_BYTES:
            _, (oldest, _) = self._cache.popitem(last=False)
            self._cached_bytes -= oldest.nbytes
        return x, y
