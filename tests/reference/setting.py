"""Small federations for the tests of the methods: unequal clients, a module of two layers."""

from dataclasses import dataclass, field, replace

import torch
from torch import nn

import fedtrip
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.given_data import as_dataset
from fedtrip.randomness import choice, stream

SIZES = (7, 10, 3, 12, 6)
"""n_k: not equal, one below the batch size of 4, no last batch of one sample (BatchNorm)"""
FEATURES, CLASSES = 6, 3


class Net(nn.Module):
    """Two layers; the representation is the output of `body`."""

    def __init__(self, *middle):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 5), *(middle or (nn.Tanh(),)))
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


def made(factory, seed=1):
    """A module with weights that do not depend on other tests."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory()


def samples(sizes=SIZES, seed=0, features=FEATURES, classes=CLASSES):
    """Inputs and labels for each client, each client with its own mean, so that the clients drift apart."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for n in sizes:
        x = torch.randn(n, features, generator=generator) + torch.randn(features, generator=generator)
        pairs.append((x, torch.randint(0, classes, (n,), generator=generator)))
    pairs[0][1][0] = classes - 1
    return pairs


@dataclass(frozen=True)
class Setting:
    """One federation; the same for the library and the reference."""

    module: nn.Module = field(default_factory=lambda: made(Net))
    pairs: list = field(default_factory=samples)
    per_round: int = 2
    rounds: int = 6
    lr: float = 0.1
    momentum: float = 0.0
    batch_size: int = 4
    local_epochs: int = 1
    weight_decay: float = 0.0
    keep_optimizer_state: bool = False
    compute: str = "auto"
    seed: int = 2540
    """its six rounds have newcomers after the first and clients that come back after 1, 2, 3 and 4 rounds"""

    @property
    def data(self):
        return fedtrip.from_clients(self.pairs, self.pairs[0], mean=0.0, std=1.0)

    def experiment(self, method, **options):
        return fedtrip.Experiment(
            method={"name": method, **options},
            per_round=self.per_round,
            rounds=self.rounds,
            lr=self.lr,
            momentum=self.momentum,
            batch_size=self.batch_size,
            local_epochs=self.local_epochs,
            weight_decay=self.weight_decay,
            keep_optimizer_state=self.keep_optimizer_state,
            compute=self.compute,
            seed=self.seed,
            eval_every=self.rounds,
        )

    def run(self, method, **options):
        """The library's result."""
        return fedtrip.run(self.experiment(method, **options), model=self.module, data=self.data, workers=1)

    def federation(self, method, **options):
        described = self.experiment(method, **options)
        return prepare(described, model=self.module, data=as_dataset(self.data, described))

    def chosen(self, number):
        return tuple(choice(stream(self.seed, "selection", number), len(self.pairs), self.per_round))

    def but(self, **changes):
        return replace(self, **changes)


NORMALISED_SIZES = (16, 24, 8, 32, 14)


def normalised(**changes):
    """A setting with BatchNorm. Its batches are larger and its ε too: else it multiplies rounding by thousands."""
    module = made(lambda: Net(nn.BatchNorm1d(5, eps=0.1), nn.Tanh()))
    return Setting(module=module, pairs=samples(NORMALISED_SIZES), batch_size=8, **changes)
