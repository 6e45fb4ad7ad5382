"""FedAvg and FedProx with a uniform mean, which many methods are at the edges of their options; bits of any method."""

from dataclasses import dataclass

from tests.reference.setting import Net, Setting, made
from torch import nn

import fedtrip
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.fedprox import FedProx


@dataclass(frozen=True)
class UniformFedAvg(FedAvg):
    """FedAvg in which every client counts the same"""

    weighting = "uniform"


@dataclass(frozen=True)
class UniformFedProx(FedProx):
    """FedProx in which every client counts the same"""

    weighting = "uniform"


SETTINGS = {
    "plain": {},
    "momentum": {"momentum": 0.9, "lr": 0.03},
    "everything": {
        "momentum": 0.9,
        "weight_decay": 0.01,
        "local_epochs": 2,
        "keep_optimizer_state": True,
        "module": made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2))),
    },
}
"""Settings of runs that are to have the same bits."""


def bits(setting, method):
    """The SHA-256 of the final model of a run with this method, an object."""
    described = setting.experiment("fedavg").but(method=method)
    return fedtrip.run(described, model=setting.module, data=setting.data, workers=1).model_sha256


def steps_of(setting, clients):
    """The local steps of all these clients together."""
    return setting.local_epochs * sum(-(-len(setting.pairs[k][1]) // setting.batch_size) for k in clients)


class Decayed(Setting):
    """A setting whose rate is halved in every round."""

    def experiment(self, method, **options):
        return super().experiment(method, **options).but(lr_schedule="exponential:0.5")

    def rate(self, t):
        return self.lr * 0.5 ** (t - 1)
