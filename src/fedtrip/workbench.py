"""Everything one process needs to do clients' work and to evaluate: the module, the data, the partition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from fedtrip.costs import pass_cost
from fedtrip.federation import Federation
from fedtrip.flat import FlatModel
from fedtrip.local import FROZEN_BATCH, ClientLocal, LocalSettings, Outcome, Task, perform


@dataclass(frozen=True)
class BatchScore:
    """How a model did on one batch of the test set."""

    loss: float
    correct: int


def batch_count(samples: int) -> int:
    """How many batches a test set of this size is evaluated in."""
    return math.ceil(samples / FROZEN_BATCH)


class Workbench:
    """One process' place of work. Its results depend on the federation and the arguments alone, not on what it
    did before, so any process may do any client's work."""

    def __init__(self, federation: Federation) -> None:
        experiment = federation.experiment
        assert experiment.momentum is not None
        self._method, self._dataset, self._partition = federation.method, federation.dataset, federation.partition
        self._flat = FlatModel(federation.module)
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
        self._share = lru_cache(maxsize=64)(self._partition.share)

    def client(self, task: Task) -> Outcome:
        """Do one client's part of an exchange."""
        rows = self._share(task.client)
        x, y = self._dataset.normalised(self._dataset.x_train[rows]), self._dataset.y_train[rows]
        local = ClientLocal(self._flat, self._initial, x, y, self._settings, task, self._cost)
        return perform(self._method, task, local, len(rows))

    def evaluate(self, model: Mapping[str, Tensor], batches: Sequence[int]) -> list[BatchScore]:
        """Summed loss and correct predictions on these batches of the test set."""
        self._flat.load(model)
        self._flat.module.eval()
        scores = []
        with torch.inference_mode():
            for batch in batches:
                rows = slice(batch * FROZEN_BATCH, (batch + 1) * FROZEN_BATCH)
                x, y = self._dataset.normalised(self._dataset.x_test[rows]), self._dataset.y_test[rows]
                logits = self._flat.module(x)
                loss = functional.cross_entropy(logits, y, reduction="sum")
                scores.append(BatchScore(float(loss), int((logits.argmax(1) == y).sum())))
        return scores
