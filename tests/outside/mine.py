"""One rule of every family as a user would write it, outside the package: nothing private is needed.

`tests/test_from_outside.py` copies this file to an empty folder and runs all of it in one experiment.
"""

# ruff: noqa: ARG002 (a rule need not use everything that its interface offers)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import nn
from torch.nn import functional

import fedtrip
from fedtrip.attacks.interface import Attack, Faults
from fedtrip.augmentations.interface import Augment
from fedtrip.codecs.interface import Codec
from fedtrip.combining.interface import Combine
from fedtrip.optimizers.interface import Optimizer
from fedtrip.partitions.interface import PartitionRule
from fedtrip.randomness import uniforms
from fedtrip.schedules.interface import Schedule
from fedtrip.selection.interface import Select
from fedtrip.server_optimizers.interface import ServerOptimizer
from fedtrip.tasks.interface import Goal, Task


def net(sample_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(sample_shape), 8), nn.Tanh(), nn.Linear(8, classes))


@dataclass(frozen=True)
class Pull(fedtrip.Method):
    """h = g + s(w_k − w)"""

    title = "FedProx under another name"

    strength: Annotated[float, Field(ge=0)] = 0.1
    """s, how strong the pull is"""

    def client(self, received, memory, local):
        return fedtrip.Reply(
            upload=local.train(received, fedtrip.Affine(self.strength, -self.strength * received["w"]))
        )


@dataclass(frozen=True)
class TopTwo(Task):
    """−log softmax(z)_y, scored by how often y is among the two largest outputs"""

    title = "right if among the first two"
    goal = Goal("top2", is_share=True)

    def outputs(self, classes):
        return classes

    def loss(self, outputs, y):
        return functional.cross_entropy(outputs, y)

    def summed_loss(self, outputs, y):
        return functional.cross_entropy(outputs, y, reduction="sum")

    def sums(self, outputs, y):
        found = (outputs.topk(2, dim=1).indices == y[:, None]).any(dim=1)
        return {"loss": float(self.summed_loss(outputs, y)), "found": int(found.sum())}

    def scores(self, sums, samples):
        return {"top2": sums["found"] / samples, "loss": sums["loss"] / samples}


@dataclass(frozen=True)
class SignStep(Optimizer):
    """w ← w − η·s·sign(h + λw)"""

    title = "only the signs"
    scale: Annotated[float, Field(gt=0)] = 0.1
    """s, the length of a step"""

    def start(self, w):
        return {}

    def step(self, w, h, state, *, lr, linear, decay):
        w.sub_(h.add_(w, alpha=linear + decay).sign_(), alpha=lr * self.scale)

    def travel(self, lr, steps, *, kept):
        return None

    @property
    def operations(self):
        return 1


@dataclass(frozen=True)
class Halving(Schedule):
    """η_t = η·2^(−⌊(t−1)/n⌋)"""

    title = "half every so many rounds"
    parameter = "every"
    every: Annotated[int, Field(ge=1)] = 2
    """n, the rounds after which the rate halves"""

    def __call__(self, t, rounds):
        return 0.5 ** ((t - 1) // self.every)


@dataclass(frozen=True)
class InTurn(Select):
    """clients (t−1)K, …, tK − 1 modulo N"""

    title = "one after the other"

    def __call__(self, rng, t, clients, per_round, samples_of):
        return tuple(sorted({((t - 1) * per_round + place) % clients for place in range(per_round)}))


@dataclass(frozen=True)
class HalfFloat(Codec):
    """float16, 2d bytes"""

    title = "two bytes a number"

    def pack(self, x, rng):
        return torch.from_numpy(x.to(torch.float16).numpy().view(np.uint8).copy())

    def unpack(self, payload, d, rng):
        return torch.from_numpy(payload.numpy().view(np.float16).astype(np.float32))

    def length(self, d):
        return 2 * d


@dataclass(frozen=True)
class Middle(Combine):
    """(max + min)/2 of each number"""

    title = "the midrange"

    def __call__(self, differences, weights, state, rng):
        return {name: (rows.amax(0) + rows.amin(0)) / 2 for name, rows in differences.items()}, state


@dataclass(frozen=True)
class Damped(ServerOptimizer):
    """w ← w + r·(proposed − w)"""

    title = "part of the way"
    operations = 1
    rate: Annotated[float, Field(gt=0, le=1)] = 0.9
    """r, how much of the way"""

    def __call__(self, w, proposed, state):
        return w + self.rate * (proposed - w), state


@dataclass(frozen=True)
class LastSleeps(Attack):
    """in every second round the last of the chosen clients never answers"""

    title = "a client that sleeps"

    def faults(self, seed, t, chosen):
        return Faults(dropped=(chosen[-1],) if t % 2 == 0 else ())


@dataclass(frozen=True)
class Strided(PartitionRule):
    """client k has the samples k, k + N, k + 2N, …"""

    title = "every N-th sample"

    def __call__(self, data):
        return _Strides(len(data.labels), data.clients, data.samples_per_client)


@dataclass(frozen=True)
class _Strides:
    size: int
    clients: int
    each: int

    def samples(self, client):
        return len(self.share(client))

    def share(self, client):
        return torch.arange(client, self.size, self.clients)[: self.each]


@dataclass(frozen=True)
class Scaled(Augment):
    """(1 + most·u)·x, u uniform in [0, 1) for each batch"""

    title = "brighter by chance"

    most: Annotated[float, Field(ge=0)] = 0.5
    """how much at most"""

    def __call__(self, x, rng):
        return x * float(1 + self.most * uniforms(rng, 1)[0])
