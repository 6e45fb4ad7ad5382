"""One client's part of a round on its flat vector. `ClientLocal.train` is the only hot loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from fedtrip.methods.interface import Affine, Batch, Correction, ExtraLoss, Memory, Method, Vectors
from fedtrip.models.representation import Tap
from fedtrip.randomness import stream, torch_seed
from fedtrip.training.costs import PassCost
from fedtrip.training.flat_model import FlatModel

FROZEN_BATCH = 500
"""Samples at once where no optimizer step depends on it: frozen networks, full gradients, evaluation."""


@dataclass(frozen=True)
class LocalSettings:
    """The experiment's settings of local training."""

    seed: int
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    keep_optimizer_state: bool
    needs_representation: bool
    representation: str | None


@dataclass(frozen=True)
class Task:
    """One chosen client's work in one exchange: what it receives, and what it remembers."""

    client: int
    round: int
    exchange: int
    received: Vectors
    memory: Memory


@dataclass(frozen=True)
class Outcome:
    """What came of a task: the upload, the memory the client would keep, and the multiply-adds it cost."""

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


def travel(lr: float, beta: float, steps: int, *, kept: bool = False) -> float:
    """How far so many steps go on a constant gradient of length one: η Σ_j (1 − β^j)/(1 − β).

    With kept momentum every step is η/(1 − β) long, as if the gradient had always been that one.
    """
    lost = 0.0 if kept else beta * (1 - beta**steps) / (1 - beta)
    return lr * (steps - lost) / (1 - beta)


class ClientLocal:
    """The tools of `fedtrip.methods.Local` for one client, one round and one exchange."""

    def __init__(
        self,
        flat: FlatModel,
        initial: Tensor,
        x: Tensor,
        y: Tensor,
        settings: LocalSettings,
        task: Task,
        cost: PassCost,
    ) -> None:
        self.round, self.exchange, self.lr = task.round, task.exchange, settings.lr
        self.initial = initial
        self.momentum = task.memory.momentum
        self.macs = 0
        self._flat, self._x, self._y, self._settings, self._task, self._cost = flat, x, y, settings, task, cost

    @property
    def steps(self) -> int:
        return self._settings.epochs * math.ceil(len(self._y) / self._settings.batch_size)

    @property
    def travel(self) -> float:
        settings = self._settings
        return travel(settings.lr, settings.momentum, self.steps, kept=settings.keep_optimizer_state)

    def train(
        self,
        start: Mapping[str, Tensor],
        correction: Correction | None = None,
        extra_loss: ExtraLoss | None = None,
        *,
        lr_scale: float = 1.0,
    ) -> Vectors:
        """K steps of h ← g + a·w + c (+ λw), m ← βm + h, w ← w − ηm with the momentum m.

        c is laid into the gradient vector, autograd adds g to it, and the optimizer's fused kernel adds a·w as if it
        were weight decay: an affine correction costs next to nothing. m is zero at the start of the round unless the
        client keeps it.
        """
        settings, flat = self._settings, self._flat
        beta, lr = settings.momentum, settings.lr * lr_scale
        affine = correction if isinstance(correction, Affine) else None
        decay = settings.weight_decay + (affine.a if affine is not None else 0.0)
        constant = affine.c if affine is not None else None
        other = correction if affine is None else None
        w, g = flat.w, flat.g
        flat.load(start)
        momentum = torch.zeros_like(w) if self.momentum is None else self.momentum.clone()
        tap = Tap(flat.module, settings.representation) if extra_loss and settings.needs_representation else None
        dense = flat.dense if extra_loss is None else None
        flat.module.train()
        try:
            for rows, x, y in self._batches():
                if constant is not None:
                    g.copy_(constant)
                elif other is not None or dense is None:
                    g.zero_()
                if other is not None:
                    other.add_to(g, w)
                if dense is not None:
                    dense.gradient(x, y, accumulate=constant is not None or other is not None)
                else:
                    logits = flat.module(x)
                    loss = functional.cross_entropy(logits, y)
                    if extra_loss is not None:
                        loss = loss + extra_loss(Batch(rows, logits, tap.take() if tap else None))
                    loss.backward()  # type: ignore[no-untyped-call]
                sgd_step(w, g, momentum, lr=lr, beta=beta, decay=decay)
        finally:
            if tap is not None:
                tap.remove()
        operations = 1 + (beta > 0) + (settings.weight_decay > 0) + (correction.operations() if correction else 0)
        self.macs += self._cost.training * settings.epochs * len(self._y) + self.steps * operations * w.numel()
        if settings.keep_optimizer_state and beta:
            self.momentum = momentum
        return flat.model()

    def representations(self, model: Mapping[str, Tensor]) -> Tensor:
        tap = Tap(self._flat.module, self._settings.representation)
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
        for x, y in zip(torch.split(self._x, FROZEN_BATCH), torch.split(self._y, FROZEN_BATCH), strict=True):
            loss = functional.cross_entropy(flat.module(flat.prepared(x)), y, reduction="sum")
            loss.backward()  # type: ignore[no-untyped-call]
        self.macs += self._cost.training * len(self._y)
        return (flat.g / len(self._y)).add_(flat.w, alpha=self._settings.weight_decay)

    def _frozen_outputs(self, model: Mapping[str, Tensor]) -> Iterator[Tensor]:
        self._flat.load(model)
        self._flat.module.eval()
        self.macs += self._cost.forward * len(self._y)
        for x in torch.split(self._x, FROZEN_BATCH):
            with torch.no_grad():
                yield self._flat.module(self._flat.prepared(x))

    def _batches(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Every epoch in a new order, a function of seed, round and client alone; the generator that dropout
        uses is seeded the same way."""
        settings, key = self._settings, (self.round, self._task.client)
        generator = stream(settings.seed, "batches", *key)
        torch.default_generator.manual_seed(torch_seed(settings.seed, "dropout", *key))
        for _ in range(settings.epochs):
            for rows in torch.split(torch.from_numpy(generator.permutation(len(self._y))), settings.batch_size):
                yield rows, self._flat.prepared(self._x.index_select(0, rows)), self._y.index_select(0, rows)


def sgd_step(w: Tensor, g: Tensor, momentum: Tensor, *, lr: float, beta: float, decay: float) -> None:
    """h ← g + decay·w; m ← βm + h; w ← w − η·m: `torch.optim.SGD`'s own kernel, one pass over the vectors."""
    torch._fused_sgd_(
        [w], [g], [momentum] if beta else [],
        lr=lr, momentum=beta, weight_decay=decay, dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
    )  # fmt: skip


def perform(method: Method, task: Task, local: ClientLocal, samples: int) -> Outcome:
    """The method's client part, run with its tools."""
    reply = method.client(task.received, task.memory, local)
    memory = replace(task.memory, vectors=reply.keep, last_round=task.round, momentum=local.momentum)
    return Outcome(task.client, samples, reply.upload, memory, local.macs)
