"""One client's part of a round on its flat vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedtrip.augmentations.interface import Augment
from fedtrip.augmentations.none import NoAugment
from fedtrip.codecs.interface import Codec, StreamOf
from fedtrip.errors import UserError
from fedtrip.inputs import Inputs, InputSpec, count_of, pieces
from fedtrip.layout import Layout, Travelling
from fedtrip.methods.interface import BatchLoss, Correction, CountedLoss, Direction, Memory, Method
from fedtrip.optimizers._clip import Clip
from fedtrip.optimizers.interface import Optimizer
from fedtrip.randomness import permutation, stream, torch_seed
from fedtrip.tasks.interface import Task
from fedtrip.training.device import placed
from fedtrip.training.prepared_model import PreparedModel
from fedtrip.training.trainer import FROZEN_BATCH, Training
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class LocalSettings:
    """The experiment's settings of local training."""

    seed: int
    epochs: int
    batch_size: int
    lr: Callable[[int], float]
    """the learning rate of each round"""
    weight_decay: float
    optimizer: Optimizer
    keep_optimizer_state: bool
    clip: Clip | None
    codec: Codec
    task: Task
    augment: Augment
    classes: int


@dataclass(frozen=True)
class Job:
    """One chosen client's work in one exchange: what it receives, and what it remembers."""

    client: int
    round: int
    exchange: int
    received: Vectors
    memory: Memory
    personalises: bool = False
    """whether it is not a part of an exchange: the client makes a model of its own, to be scored and thrown away"""


@dataclass(frozen=True)
class Outcome:
    """What came of a job: the upload, the memory the client would keep, and the multiply-adds it cost."""

    client: int
    samples: int
    upload: Vectors
    memory: Memory
    macs: int
    problem: str | None = None
    """why there is no upload: the client could not be reached, or its answer not be read"""
    wire_down: int = 0
    """serialised size of what was sent to the client; 0 on an engine that serialises nothing"""
    wire_up: int = 0
    """serialised size of what came back"""
    remote: bool = False
    """whether it comes from another machine, which may send anything, and not from the method's code on this one"""
    is_borrowed: bool = False
    """whether its vectors lie in memory that the engine uses again: they are valid until the next outcome is asked for,
    and who keeps one copies it"""


class ClientLocal:
    """The tools of `fedtrip.methods.Local` for one client, one round and one exchange."""

    def __init__(
        self,
        model: PreparedModel,
        first: Callable[[], Vectors],
        x: Inputs,
        y: Tensor,
        settings: LocalSettings,
        job: Job,
    ) -> None:
        self.round, self.exchange, self.lr = job.round, job.exchange, settings.lr(job.round)
        self.labels = y
        self.optimizer_state = dict(job.memory.optimizer)
        """what the optimizer leaves for the client's next round, of every training of this one"""
        self.macs = 0
        self._trainings = 0
        self._flat, self._trainer, self._cost = model.flat, model.trainer, model.cost
        self._x, self.settings, self._job, self._first = x, settings, job, first

    @property
    def initial(self) -> Tensor:
        return self._first()["w"]

    @property
    def steps(self) -> int:
        return self._steps(self.settings.epochs)

    @property
    def travel(self) -> float:
        settings = self.settings
        distance = settings.optimizer.travel(self.lr, self.steps, kept=settings.keep_optimizer_state)
        if distance is None:
            raise UserError(
                "the method asks for `travel`, which the optimizer does not have; say `needs_travel = True`"
            )
        return distance

    def travel_with(self, prox: float) -> float:
        if prox == 0:
            return self.travel
        settings = self.settings
        return settings.optimizer.travel_with(prox, self.lr, self.steps, kept=settings.keep_optimizer_state)

    @property
    def class_counts(self) -> Tensor:
        return torch.bincount(self.labels.to("cpu"), minlength=self.settings.classes)

    @property
    def layout(self) -> Layout:
        return self._flat.layout

    def train(
        self,
        start: Mapping[str, Tensor],
        correction: Correction | None = None,
        extra_loss: BatchLoss | None = None,
        *,
        loss: BatchLoss | None = None,
        direction: Direction | None = None,
        only: Collection[str] | None = None,
        lr_scale: float = 1.0,
        epochs: int | None = None,
        order: str = "batches",
    ) -> Vectors:
        """K steps of the optimizer in the direction h = g + a·w + c, and its own weight decay λ."""
        if correction is not None and direction is not None:
            raise UserError("the method trains with a correction and a direction; accepted: one of the two")
        settings, optimizer = self.settings, self.settings.optimizer
        epochs = settings.epochs if epochs is None else epochs
        dropout = "dropout" if order == "batches" else f"dropout {order}"
        self._trainer.load(start)
        state = self._first_state()
        self._trainer.train(
            Training(
                x=self._x,
                y=self.labels,
                order=self._order(order, epochs),
                batch_size=settings.batch_size,
                lr=self.lr * lr_scale,
                decay=settings.weight_decay,
                optimizer=optimizer,
                state=state,
                clip=settings.clip,
                correction=correction,
                direction=direction,
                loss=loss,
                extra_loss=extra_loss,
                frozen=None if only is None else ~self.layout.mask(only, "w"),
                dropout_key=torch_seed(settings.seed, dropout, self.round, self._job.client),
                augment=self._augment(),
            )
        )
        changes = correction or direction
        operations = optimizer.operations + (settings.weight_decay > 0) + (changes.operations() if changes else 0)
        changed = self._steps(epochs) * operations * self._flat.w.numel()
        passes = epochs * len(self.labels) * (direction.gradients() if direction else 1)
        own = sum(one.operations(self._cost) for one in (loss, extra_loss) if isinstance(one, CountedLoss))
        self.macs += (self._cost.training + own) * passes + changed
        self._keep_state(state)
        del state  # before the model is copied: not both at once
        return self._flat.model()

    def _steps(self, epochs: int) -> int:
        return epochs * math.ceil(len(self.labels) / self.settings.batch_size)

    def _order(self, purpose: str, epochs: int) -> Tensor:
        """The samples of every epoch in a new order, a function of seed, purpose, round and client alone."""
        generator = stream(self.settings.seed, purpose, self.round, self._job.client)
        drawn = [permutation(generator, len(self.labels)) for _ in range(epochs)]
        return torch.from_numpy(np.stack(drawn)) if drawn else torch.empty((0, len(self.labels)), dtype=torch.int64)

    def _augment(self) -> Callable[[Inputs, int], Inputs] | None:
        """The change of this training's batches, its draws a function of seed, round, exchange, client, training and
        step alone."""
        settings, keys = self.settings, (self.round, self._job.client, self.exchange, self._trainings)
        if isinstance(settings.augment, NoAugment):
            return None

        def changed(x: Inputs, step: int) -> Inputs:
            rng = stream(settings.seed, "augment", *keys, step)
            new = settings.augment(placed(x, torch.device("cpu")), rng)  # the same draws and arithmetic for any device
            if count_of(new) != count_of(x) or InputSpec.of(new) != InputSpec.of(x):
                raise UserError(
                    f"augment made {count_of(new)} samples of {InputSpec.of(new)} of {count_of(x)} of "
                    f"{InputSpec.of(x)}; accepted: the same shape and type"
                )
            return placed(new, self._flat.device)

        return changed

    def _first_state(self) -> Vectors:
        """The optimizer's state before the first step: new, or what this training of the last round left.

        Every training of a round has its own: a second one does not go on with the first one's momentum.
        """
        self._trainings += 1
        kept = {
            name.removeprefix(self._prefix): vector.to(self._flat.device, copy=True)
            for name, vector in self._job.memory.optimizer.items()
            if name.startswith(self._prefix)
        }
        return kept if kept else self.settings.optimizer.start(self._flat.w)

    def _keep_state(self, state: Vectors) -> None:
        if self.settings.keep_optimizer_state:
            self.optimizer_state |= {self._prefix + name: vector.to("cpu") for name, vector in state.items()}

    @property
    def _prefix(self) -> str:
        """What the names of this training's state begin with: no two of a round, in any exchange, have the same."""
        return f"{self._trainings}." if self.exchange == 0 else f"exchange {self.exchange}.{self._trainings}."

    def representations(self, model: Mapping[str, Tensor]) -> Tensor:
        return self._frozen(model, self._trainer.representations)

    def logits(self, model: Mapping[str, Tensor]) -> Tensor:
        return self._frozen(model, self._trainer.outputs)

    def _frozen(self, model: Mapping[str, Tensor], look: Callable[[Inputs], Tensor]) -> Tensor:
        """What is seen of a model that is not trained, over all local samples."""
        self._trainer.load(model)
        self.macs += self._cost.forward * len(self.labels)
        return torch.cat([look(x) for x in pieces(self._x, FROZEN_BATCH)])

    def gradient(self, model: Mapping[str, Tensor]) -> Tensor:
        """Σ over fixed chunks of the summed loss' gradient, divided by what it is a mean over (n_k); plus λw."""
        flat = self._flat
        self._trainer.load(model)
        flat.g.zero_()
        for x, y in zip(pieces(self._x, FROZEN_BATCH), torch.split(self.labels, FROZEN_BATCH), strict=True):
            self._trainer.add_gradient(x, y)
        self.macs += self._cost.training * len(self.labels)
        mean = flat.g / (self.settings.task.count(self.labels) or 1)
        return axpy(mean.to("cpu"), self.settings.weight_decay, flat.w.to("cpu"))


def perform(
    method: Method, job: Job, local: ClientLocal, travelling: Travelling, first: Callable[[], Vectors]
) -> Outcome:
    """The method's client part, run with its tools, and its upload as it travels; `first` gives the initial model."""
    memory = job.memory
    received = travelling.whole(job.received, first(), memory.personal) if travelling else job.received
    reply = method.client(received, memory, local)
    upload = travelling.cut(reply.upload) if travelling else reply.upload
    personal = travelling.personal(reply.upload) if travelling and "w" in reply.upload else memory.personal
    streams, codec = codec_streams(local.settings.seed, job.round, job.client, job.exchange), local.settings.codec
    payload, residuals = codec.encode(upload, job.received, memory.codec, streams)
    kept = Memory(reply.keep, job.round, local.optimizer_state, residuals, personal)
    return Outcome(job.client, len(local.labels), payload, kept, local.macs + codec.client_operations(upload))


def personalised(
    method: Method, job: Job, local: ClientLocal, travelling: Travelling, first: Callable[[], Vectors]
) -> Outcome:
    """A client's own model of what it receives and remembers, in place of an upload; it keeps nothing of it."""
    received = travelling.whole(job.received, first(), job.memory.personal) if travelling else job.received
    own = method.personalise(received, job.memory, local)
    return Outcome(job.client, len(local.labels), own, Memory(), local.macs)


def codec_streams(seed: int, t: int, client: int, exchange: int) -> StreamOf:
    """The generators that a codec draws from, the same at the client and at the server."""
    return lambda name: stream(seed, f"codec {name}", t, client, exchange)
