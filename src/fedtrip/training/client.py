"""One client's part of a round on its flat vector. `ClientLocal.train` is the only hot loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fedtrip.codecs.interface import Codec, StreamOf
from fedtrip.errors import UserError
from fedtrip.layout import Travelling
from fedtrip.methods.interface import Affine, Batch, Correction, ExtraLoss, Memory, Method
from fedtrip.models.representation import Tap
from fedtrip.optimizers._clip import Clip
from fedtrip.optimizers.interface import Optimizer
from fedtrip.randomness import stream, torch_seed
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.interface import Task
from fedtrip.training.costs import PassCost
from fedtrip.training.flat_model import FlatModel
from fedtrip.vectors import Vectors

FROZEN_BATCH = 500
"""Samples at once where no optimizer step depends on it: frozen networks, full gradients, evaluation."""


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
    classes: int
    needs_representation: bool
    representation: str | None


@dataclass(frozen=True)
class Job:
    """One chosen client's work in one exchange: what it receives, and what it remembers."""

    client: int
    round: int
    exchange: int
    received: Vectors
    memory: Memory


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


class Samples(NamedTuple):
    """The samples of one step: their places among the client's, inputs and labels."""

    rows: Tensor
    x: Tensor
    y: Tensor


class ClientLocal:
    """The tools of `fedtrip.methods.Local` for one client, one round and one exchange."""

    def __init__(
        self,
        flat: FlatModel,
        first: Callable[[], Vectors],
        x: Tensor,
        y: Tensor,
        settings: LocalSettings,
        job: Job,
        cost: PassCost,
    ) -> None:
        self.round, self.exchange, self.lr = job.round, job.exchange, settings.lr(job.round)
        self.labels = y
        self.optimizer_state = dict(job.memory.optimizer)
        """what the optimizer leaves for the client's next round, of every training of this one"""
        self.macs = 0
        self._trainings = 0
        self._flat, self._x, self.settings, self._job, self._cost = flat, x, settings, job, cost
        self._first = first

    @property
    def initial(self) -> Tensor:
        return self._first()["w"]

    @property
    def _has_cross_entropy(self) -> bool:
        """Whether the loss is the one that the fast path computes: not where a task of one's own has another."""
        return type(self.settings.task).loss is Classification.loss

    @property
    def steps(self) -> int:
        return self.settings.epochs * math.ceil(len(self.labels) / self.settings.batch_size)

    @property
    def travel(self) -> float:
        settings = self.settings
        distance = settings.optimizer.travel(self.lr, self.steps, kept=settings.keep_optimizer_state)
        if distance is None:
            raise UserError(
                "the method asks for `travel`, which the optimizer does not have; say `needs_travel = True`"
            )
        return distance

    @property
    def class_counts(self) -> Tensor:
        return torch.bincount(self.labels, minlength=self.settings.classes)

    def train(
        self,
        start: Mapping[str, Tensor],
        correction: Correction | None = None,
        extra_loss: ExtraLoss | None = None,
        *,
        lr_scale: float = 1.0,
    ) -> Vectors:
        """K steps of the optimizer in the direction h = g + a·w + c, and its own weight decay λ.

        c is laid into the gradient vector, autograd adds g to it, and the optimizer takes a: with SGD's fused kernel an
        affine correction costs next to nothing.
        """
        settings, flat = self.settings, self._flat
        optimizer, lr, w, g = settings.optimizer, self.lr * lr_scale, flat.w, flat.g
        affine = correction if isinstance(correction, Affine) else None
        linear = affine.a if affine is not None else 0.0
        flat.load(start)
        state = self._first_state()
        tap = Tap(flat.module, settings.representation) if extra_loss and settings.needs_representation else None
        flat.module.train()
        try:
            for samples in self._batches():
                if settings.clip is None:
                    self._direction(samples, correction, extra_loss, tap)
                    optimizer.step(w, g, state, lr=lr, linear=linear, decay=settings.weight_decay)
                else:
                    self._clipped_direction(settings.clip, samples, correction, extra_loss, tap)
                    optimizer.step(w, g, state, lr=lr, linear=0.0, decay=settings.weight_decay)
        finally:
            if tap is not None:
                tap.remove()
        operations = optimizer.operations + (settings.weight_decay > 0) + (correction.operations() if correction else 0)
        self.macs += self._cost.training * settings.epochs * len(self.labels) + self.steps * operations * w.numel()
        self._keep_state(state)
        del state  # before the model is copied: not both at once
        return flat.model()

    def _direction(
        self, samples: Samples, correction: Correction | None, extra_loss: ExtraLoss | None, tap: Tap | None
    ) -> None:
        """Write g + correction into the gradient vector; of an affine correction only its constant c."""
        flat, g, (rows, x, y) = self._flat, self._flat.g, samples
        dense = flat.dense if extra_loss is None and self._has_cross_entropy else None
        constant = correction.c if isinstance(correction, Affine) else None
        other = None if isinstance(correction, Affine) else correction
        if constant is not None:
            g.copy_(constant)
        elif other is not None or dense is None:
            g.zero_()
        if other is not None:
            other.add_to(g, flat.w)
        if dense is not None:
            dense.gradient(x, y, accumulate=constant is not None or other is not None)
            return
        outputs = flat.module(x)
        loss = self.settings.task.loss(outputs, y)
        if extra_loss is not None:
            loss = loss + extra_loss(Batch(rows, y, outputs, tap.take() if tap else None))
        loss.backward()  # type: ignore[no-untyped-call]

    def _clipped_direction(
        self,
        clip: Clip,
        samples: Samples,
        correction: Correction | None,
        extra_loss: ExtraLoss | None,
        tap: Tap | None,
    ) -> None:
        """The same with all of the correction, and cut to length: the gradient alone, or what is left in the end."""
        g = self._flat.g
        self._direction(samples, None, extra_loss, tap)
        if clip.of == "gradient":
            clip.cut(g)
        if correction is not None:
            correction.add_to(g, self._flat.w)
        if clip.of == "step":
            clip.cut(g)

    def _first_state(self) -> Vectors:
        """The optimizer's state before the first step: new, or what this training of the last round left.

        Every training of a round has its own: a second one does not go on with the first one's momentum.
        """
        self._trainings += 1
        kept = {
            name.removeprefix(self._prefix): vector.clone()
            for name, vector in self._job.memory.optimizer.items()
            if name.startswith(self._prefix)
        }
        return kept if kept else self.settings.optimizer.start(self._flat.w)

    def _keep_state(self, state: Vectors) -> None:
        if self.settings.keep_optimizer_state:
            self.optimizer_state |= {self._prefix + name: vector for name, vector in state.items()}

    @property
    def _prefix(self) -> str:
        """What the names of this training's state begin with: no two of a round, in any exchange, have the same."""
        return f"{self._trainings}." if self.exchange == 0 else f"exchange {self.exchange}.{self._trainings}."

    def representations(self, model: Mapping[str, Tensor]) -> Tensor:
        tap = Tap(self._flat.module, self.settings.representation)
        try:
            return torch.cat([tap.take() for _ in self._frozen_outputs(model)])
        finally:
            tap.remove()

    def logits(self, model: Mapping[str, Tensor]) -> Tensor:
        return torch.cat(list(self._frozen_outputs(model)))

    def gradient(self, model: Mapping[str, Tensor]) -> Tensor:
        """Σ over fixed chunks of the summed loss' gradient, divided by n_k; plus λw."""
        flat = self._flat
        flat.load(model)
        flat.g.zero_()
        flat.module.eval()
        for x, y in zip(torch.split(self._x, FROZEN_BATCH), torch.split(self.labels, FROZEN_BATCH), strict=True):
            loss = self.settings.task.summed_loss(flat.module(flat.prepared(x)), y)
            loss.backward()  # type: ignore[no-untyped-call]
        self.macs += self._cost.training * len(self.labels)
        return (flat.g / len(self.labels)).add_(flat.w, alpha=self.settings.weight_decay)

    def _frozen_outputs(self, model: Mapping[str, Tensor]) -> Iterator[Tensor]:
        self._flat.load(model)
        self._flat.module.eval()
        self.macs += self._cost.forward * len(self.labels)
        for x in torch.split(self._x, FROZEN_BATCH):
            with torch.no_grad():
                yield self._flat.module(self._flat.prepared(x))

    def _batches(self) -> Iterator[Samples]:
        """Every epoch in a new order, a function of seed, round and client alone; the generator that dropout
        uses is seeded the same way."""
        settings, key = self.settings, (self.round, self._job.client)
        generator = stream(settings.seed, "batches", *key)
        torch.default_generator.manual_seed(torch_seed(settings.seed, "dropout", *key))
        for _ in range(settings.epochs):
            for rows in torch.split(torch.from_numpy(generator.permutation(len(self.labels))), settings.batch_size):
                yield Samples(
                    rows, self._flat.prepared(self._x.index_select(0, rows)), self.labels.index_select(0, rows)
                )


def perform(
    method: Method, job: Job, local: ClientLocal, travelling: Travelling, first: Callable[[], Vectors]
) -> Outcome:
    """The method's client part, run with its tools, and its upload as it travels; `first` gives the initial model."""
    memory = job.memory
    received = travelling.whole(job.received, first(), memory.personal) if travelling else job.received
    reply = method.client(received, memory, local)
    upload = travelling.cut(reply.upload) if travelling else reply.upload
    personal = travelling.personal(reply.upload) if travelling and "w" in reply.upload else memory.personal
    streams = codec_streams(local.settings.seed, job.round, job.client, job.exchange)
    payload, residuals = local.settings.codec.encode(upload, job.received, memory.codec, streams)
    kept = Memory(reply.keep, job.round, local.optimizer_state, residuals, personal)
    return Outcome(job.client, len(local.labels), payload, kept, local.macs)


def codec_streams(seed: int, t: int, client: int, exchange: int) -> StreamOf:
    """The generators that a codec draws from, the same at the client and at the server."""
    return lambda name: stream(seed, f"codec {name}", t, client, exchange)
