"""Everything one process needs to do clients' work and to evaluate: the module, the data, the partition."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedtrip.experiment.federation import Federation
from fedtrip.layout import Travelling
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import ClientLocal, Job, LocalSettings, Outcome, perform
from fedtrip.training.lazy_memory import give_back_freed
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.trainer import FROZEN_BATCH
from fedtrip.vectors import Vectors

EVALUATION_BLOCK = 2 * FROZEN_BATCH
"""Samples that are scored at once: the unit in which an evaluation is spread over workers."""
CACHED_BYTES = 128 * 2**20
"""Normalised inputs of recent clients that a process keeps, so that a federation of few clients prepares them once."""


@dataclass(frozen=True)
class Question:
    """How good a model is on some samples: the whole test set, or a client's own training samples."""

    model: Vectors
    client: int | None = None
    """the client whose training samples are meant; None for the test set"""


class Workbench:
    """One process' place of work. Its results depend on the federation and the arguments alone, not on what it
    did before, so any process may do any client's work."""

    def __init__(self, federation: Federation, prepared: PreparedModel | None = None) -> None:
        prepared = prepared or PreparedModel.of(federation)
        experiment = federation.experiment
        self._method, self._partition = federation.method, federation.partition
        self._dataset = federation.dataset.with_test_inputs()
        self._model, self._module = prepared, federation.module
        layout = prepared.flat.layout
        self._travelling = Travelling(layout, federation.method.stays(layout))
        self._settings = LocalSettings(
            seed=experiment.seed,
            epochs=experiment.local_epochs,
            batch_size=experiment.batch_size,
            lr=federation.lr,
            weight_decay=experiment.weight_decay,
            optimizer=federation.rules.optimizer,
            keep_optimizer_state=experiment.keep_optimizer_state,
            clip=federation.rules.clip,
            codec=federation.rules.upload_codec,
            task=federation.rules.task,
            classes=federation.dataset.classes,
        )
        self._cache: OrderedDict[int, tuple[Tensor, Tensor]] = OrderedDict()
        self._cached_bytes = 0

    def client(self, job: Job) -> Outcome:
        """Do one client's part of an exchange."""
        x, y = self._samples(job.client)
        local = ClientLocal(self._model, self._first, x, y, self._settings, job)
        return perform(self._method, job, local, self._travelling, self._first)

    def _first(self) -> Vectors:
        """The model that the federation started from; made when it is asked for, because few methods do."""
        return self._model.flat.model_of(self._module)

    def blocks(self, question: Question) -> range:
        """The blocks in which a question's samples are scored."""
        samples = len(self._dataset.y_test) if question.client is None else self._partition.samples(question.client)
        return range(math.ceil(samples / EVALUATION_BLOCK))

    def score(self, question: Question, blocks: Sequence[int]) -> list[Sums]:
        """What these blocks of the question's samples add to the task's scores."""
        if question.client is None:
            inputs, goals = self._dataset.test_inputs, self._dataset.y_test
            assert inputs is not None
        else:
            inputs, goals = self._samples(question.client)
        scorer = self._model.scorer
        scorer.load(question.model)
        rows = [slice(block * EVALUATION_BLOCK, (block + 1) * EVALUATION_BLOCK) for block in blocks]
        return [scorer.sums(inputs[block], goals[block]) for block in rows]

    def give_back(self) -> None:
        """Free the memory of the module's vectors until the next work: nothing of them is needed for it."""
        self._model.flat.give_back()

    def give_back_freed(self) -> None:
        """Free what the last work left behind."""
        give_back_freed(self._model.flat.w)

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
