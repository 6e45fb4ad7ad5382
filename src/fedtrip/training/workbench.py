"""Everything one process needs to do clients' work and to evaluate: the module, the data, the partition."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedtrip.attacks.interface import Samples
from fedtrip.experiment.federation import Federation
from fedtrip.inputs import Inputs, size_of, sliced, taken
from fedtrip.layout import Travelling
from fedtrip.partitions.interface import Partition, seen_by
from fedtrip.randomness import stream
from fedtrip.tasks.interface import Sums
from fedtrip.training.client import ClientLocal, Job, LocalSettings, Outcome, perform, personalised
from fedtrip.training.device import placed
from fedtrip.training.lazy_memory import give_back_freed
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.trainer import FROZEN_BATCH
from fedtrip.vectors import Vectors

EVALUATION_BLOCK = 2 * FROZEN_BATCH
"""Samples that are scored at once: the unit in which an evaluation is spread over workers."""
CACHED_BYTES = 128 * 2**20
"""Normalised inputs of recent clients that a process keeps, so that a federation of few clients prepares them once."""


Part = Literal["test", "validation", "train", "probe"]
"""What an attack's success is measured on is its probe of the test set."""


@dataclass(frozen=True)
class Question:
    """How good a model is on some samples: those of the server, or a client's own."""

    model: Vectors
    client: int | None = None
    """the client whose samples are meant; None for the server's"""
    part: Part = "test"
    """which of them; the server has none to train on"""


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
            augment=federation.rules.augment,
            classes=federation.dataset.classes,
        )
        self._held_out, self._attack, self._attackers = (
            federation.held_out,
            federation.rules.attack,
            federation.attackers,
        )
        self._cache: OrderedDict[tuple[Part, int | None], tuple[Inputs, Tensor]] = OrderedDict()
        self._cached_bytes = 0
        assert self._dataset.test_inputs is not None
        self._test = placed(self._dataset.test_inputs, prepared.flat.device), self._dataset.y_test

    def client(self, job: Job) -> Outcome:
        """Do one client's part of an exchange, or make its own model."""
        x, y = self._samples("train", job.client)
        local = ClientLocal(self._model, self._first, x, y, self._settings, job)
        work = personalised if job.personalises else perform
        return work(self._method, job, local, self._travelling, self._first)

    def _first(self) -> Vectors:
        """The model that the federation started from; made when it is asked for, because few methods do."""
        return self._model.flat.model_of(self._module)

    def blocks(self, question: Question) -> range:
        """The blocks in which a question's samples are scored."""
        return range(math.ceil(self._count(question) / EVALUATION_BLOCK))

    def _count(self, question: Question) -> int:
        """How many samples a question is about."""
        held_out, client = self._held_out, question.client
        if client is not None:
            return self._shares(question.part).samples(client)
        if question.part == "test":
            return len(self._dataset.y_test)
        if question.part == "probe":
            return int(self._attack.probed(self._dataset.y_test).sum())
        assert held_out.validation is not None
        return len(held_out.validation)

    def score(self, question: Question, blocks: Sequence[int]) -> list[Sums]:
        """What these blocks of the question's samples add to the task's scores."""
        inputs, goals = self._samples(question.part, question.client)
        scorer = self._model.scorer
        scorer.load(question.model)
        rows = [slice(block * EVALUATION_BLOCK, (block + 1) * EVALUATION_BLOCK) for block in blocks]
        return [scorer.sums(sliced(inputs, block), goals[block]) for block in rows]

    def give_back(self) -> None:
        """Free the memory of the module's vectors until the next work: nothing of them is needed for it."""
        self._model.flat.give_back()

    def give_back_freed(self) -> None:
        """Free what the last work left behind."""
        give_back_freed(self._model.flat.w)

    def _samples(self, part: Part, client: int | None) -> tuple[Inputs, Tensor]:
        """Normalised inputs and targets, kept for the next turn as long as there is room."""
        if client is None and part == "test":
            return self._test
        key = part, client
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        device = self._model.flat.device
        x, y = self._drawn(part, client)
        x, y = placed(x, device), y.to(device)
        self._cache[key] = x, y
        self._cached_bytes += size_of(x)
        while self._cached_bytes > CACHED_BYTES:
            _, (oldest, _) = self._cache.popitem(last=False)
            self._cached_bytes -= size_of(oldest)
        return x, y

    def _drawn(self, part: Part, client: int | None) -> tuple[Inputs, Tensor]:
        """A client's samples, or the server's for validation."""
        dataset, held_out = self._dataset, self._held_out
        if part == "probe":
            assert dataset.test_inputs is not None
            return self._attack.probe(self._as_attacked(dataset.test_inputs, dataset.y_test))
        if client is None:
            assert held_out.validation is not None
            rows = held_out.validation
        else:
            rows = self._shares(part).share(client)
        if part == "test" and held_out.tests_are_of_test_set:
            assert dataset.test_inputs is not None
            return taken(dataset.test_inputs, rows), dataset.y_test[rows]
        x, y = dataset.normalised(taken(dataset.x_train, rows)), dataset.y_train[rows]
        if client is None:
            return x, y
        x = seen_by(self._partition, client, rows, x)
        if part != "train" or client not in self._attackers or not self._attack.poisons:
            return x, y
        rng = stream(self._settings.seed, "poisoned samples", client)
        return self._attack.poisoned(self._as_attacked(x, y), rng)

    def _as_attacked(self, x: Inputs, y: Tensor) -> Samples:
        """Samples with what an attack may ask about the data set."""
        return Samples(x, y, self._dataset.classes, self._brightest)

    def _brightest(self) -> Tensor:
        """One input, all of whose numbers are the largest of the training set, normalised."""
        x = self._dataset.x_train
        assert isinstance(x, Tensor)
        bright = self._dataset.normalised(torch.full_like(x[:1], x.max().item()))
        assert isinstance(bright, Tensor)
        return bright

    def _shares(self, part: Part) -> Partition:
        """The clients' samples of one kind."""
        held_out = self._held_out
        shares = {"train": self._partition, "validation": held_out.client_validation, "test": held_out.own_tests}[part]
        assert shares is not None
        return shares
