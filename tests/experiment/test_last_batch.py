"""A last batch of one sample: fine for most models, refused up front for those that cannot train on it."""

import pytest
import torch
from torch import nn

import fedtrip


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def data(client_sizes):
    pairs = [(torch.randn(n, 3), torch.arange(n) % 2) for n in client_sizes]
    return fedtrip.from_clients(pairs, (torch.randn(6, 3), torch.arange(6) % 2))


def test_batchnorm_with_a_single_last_sample_is_refused_before_anything_runs():
    experiment = fedtrip.Experiment(method="fedavg", rounds=1, batch_size=5, per_round=1)
    with pytest.raises(fedtrip.UserError, match=r"batch_size is 5: client 1 has 11 samples.*BatchNorm"):
        fedtrip.run(experiment, model=normed(), data=data([10, 11, 12]))


def test_other_models_and_other_sizes_train():
    experiment = fedtrip.Experiment(method="fedavg", rounds=1, batch_size=5, per_round=1)
    assert fedtrip.run(experiment, model=normed(), data=data([10, 12])).records
    assert fedtrip.run(experiment, model=nn.Linear(3, 2), data=data([10, 11])).records
