"""Faults of personal methods in other implementations, put into ours as in `tools.audit.faults`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedtrip.layout import Layout
from fedtrip.methods.apfl import Apfl
from fedtrip.methods.fedbn import FedBn
from fedtrip.methods.interface import GradientAt, Local, Memory, Reply, Server, Uploads
from fedtrip.methods.pfedme import PFedMe
from fedtrip.randomness import choice, stream
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class FedBnByName(FedBn):
    """what stays is what has bn in its name"""

    def stays(self, layout: Layout) -> frozenset[str]:
        return frozenset(name for name in layout.parts if "bn" in name)


@dataclass(frozen=True)
class ApflOwnSteps(Apfl):
    """v_k takes its steps at v_k, not at the mixture; after a round the mixture takes its place, and is what is used"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        beside = OwnSteps((received["w"] if memory.is_new else memory["v"]).clone(), local.lr)
        trained = local.train(received, direction=beside)
        mixed = self.alpha * beside.v + (1 - self.alpha) * trained["w"]
        return Reply(upload=trained, keep={"v": mixed, "alpha": torch.tensor([self.alpha])})

    def personal_model(self, model: Vectors, memory: Memory) -> Vectors:
        return model if memory.is_new else {**model, "w": memory["v"]}


@dataclass
class OwnSteps:
    """The gradient at w_k as it is; v_k takes a step by its own gradient by the way."""

    v: Tensor
    lr: float

    def at(self, w_k: Tensor, gradient: GradientAt, step: int) -> Tensor:
        del step
        slope = gradient()
        axpy(self.v, -self.lr, gradient(self.v - w_k))
        return slope

    def operations(self) -> int:
        return 2

    def gradients(self) -> int:
        return 2


@dataclass(frozen=True)
class PFedMeAllTrain(PFedMe):
    """all clients train in every round (the experiment chooses all); the mean is that of a few of them"""

    needs_each: ClassVar[bool] = True

    averaged: int = 4
    """|S|"""

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        each = uploads.each()
        chosen = choice(stream(0, "audit choice", server.round), len(each), self.averaged)
        weights = self.weights([each[place] for place in chosen])
        mean = torch.zeros_like(server.w, dtype=torch.float64)
        for weight, place in zip(weights, chosen, strict=True):
            mean += each[place]["w"] * (weight / sum(weights))
        return server.updated(w=(1 - self.beta) * server.w.double() + self.beta * mean)
