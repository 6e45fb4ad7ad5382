"""Clients that train with a direction of a test's own, on either trainer."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from tests.reference.setting import Net, Setting, made, samples
from tests.reference.watching import named
from torch import nn

from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.given_data import as_dataset
from fedtrip.methods.interface import Memory, Method, Reply
from fedtrip.randomness import permutation, stream
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.client import Job

both_trainers = pytest.mark.parametrize("compute", ["native", "torch"])


class Look:
    """A direction made of a function of w_k, gradient and step; by default the gradient as it is."""

    def __init__(self, at=lambda _w_k, gradient, _step: gradient(), *, gradients=1, operations=0):
        self._at, self._gradients, self._operations = at, gradients, operations

    def at(self, w_k, gradient, step):
        return self._at(w_k, gradient, step)

    def gradients(self):
        return self._gradients

    def operations(self):
        return self._operations


@dataclass(frozen=True)
class Directed(Method):
    """FedAvg whose clients train with what is given here."""

    given: Any

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(upload=local.train(received, **self.given))


def federation_of(setting, given, **fields):
    described = setting.experiment("fedavg").but(**fields)
    federation = prepare(described, model=setting.module, data=as_dataset(setting.data, described))
    return replace(federation, rules=replace(federation.rules, method=Directed(given)))


def worked(setting, given=None, *, client=1, t=2, moved=0.0, fields=None):
    """The outcome of one client that trains with these arguments from the initial model, or from beside it."""
    federation = federation_of(setting, given or {}, **(fields or {}))
    received = initial_state(federation, ClientStore()).server.model
    received = {**received, "w": received["w"] + moved}
    with torch.random.fork_rng(devices=[]):
        return next(SerialEngine(federation).work([Job(client, t, 0, received, Memory())]))


def by_name(setting, vector):
    """A flat vector's parts, by the names that they have in the module."""
    return named(federation_of(setting, {}), {"w": vector})


def flat_of(setting, tensors):
    """Such parts as a flat vector: by trying which place of it is which number."""
    size = sum(p.numel() for p in setting.module.parameters())
    places = by_name(setting, torch.arange(size, dtype=torch.float32))
    vector = torch.empty(size)
    for name, tensor in tensors.items():
        vector[places[name].long().reshape(-1)] = tensor.float().reshape(-1)
    return vector


def batches(setting, client=1, t=2):
    """Inputs and labels of every step, in float64."""
    x, y = setting.pairs[client][0].double(), setting.pairs[client][1]
    generator = stream(setting.seed, "batches", t, client)
    for _ in range(setting.local_epochs):
        order = permutation(generator, len(y))
        for start in range(0, len(y), setting.batch_size):
            rows = torch.from_numpy(order[start : start + setting.batch_size])
            yield x[rows], y[rows]


def beside(size, scale=0.5, seed=3):
    return scale * torch.randn(size, generator=torch.Generator().manual_seed(seed))


def same(one, other):
    """Whether two outcomes have the same bits in all that is sent."""
    return one.upload.keys() == other.upload.keys() and all(
        torch.equal(vector, other.upload[name]) for name, vector in one.upload.items()
    )


def everything(compute):
    middle = (nn.ReLU(), nn.Dropout(0.3))
    normalises = () if compute == "native" else (nn.BatchNorm1d(5),)
    module = made(lambda: Net(*normalises, *middle))
    return Setting(
        module=module, compute=compute, momentum=0.9, weight_decay=0.03, local_epochs=2,
        pairs=samples((16, 24, 8, 32, 14)), batch_size=8,
    )  # fmt: skip
