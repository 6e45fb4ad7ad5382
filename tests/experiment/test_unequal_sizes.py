"""Clients with unequal numbers of samples: defaults, checks and costs follow each client's own."""

import numpy as np
import pytest
import torch
from torch import nn

import fedtrip
from fedtrip.experiment.defaults import changed
from fedtrip.experiment.federation import prepare
from fedtrip.training.costs import pass_cost

DIVISIONS = ("shards:2", "quantity:0.5", "dirichlet-classes:0.5")


def sizes(federation):
    return [federation.partition.samples(client) for client in range(federation.partition.clients)]


@pytest.mark.parametrize("partition", DIVISIONS)
def test_a_division_uses_the_whole_training_set_unless_it_is_told_otherwise(partition):
    experiment = fedtrip.Experiment(partition=partition, method="fedavg")
    whole = prepare(experiment)
    assert sum(sizes(whole)) == len(whole.dataset.y_train) == 1437
    assert whole.experiment.samples_per_client == 144
    assert sum(sizes(prepare(experiment.but(samples_per_client=20)))) == 200
    assert sizes(prepare(whole.experiment)) == sizes(whole)  # a stored experiment says the same again
    with pytest.raises(fedtrip.UserError, match=r"samples_per_client is 400.*accepted: 1 to 144"):
        prepare(experiment.but(samples_per_client=400))


def test_another_partition_of_a_stored_experiment_brings_its_own_default():
    stored = prepare(fedtrip.Experiment(method="fedavg")).experiment
    assert stored.samples_per_client == 400
    divided = prepare(changed(stored, partition="quantity:1"))
    assert sum(sizes(divided)) == 1437
    assert prepare(changed(divided.experiment, partition="iid")).experiment.samples_per_client == 400
    assert prepare(changed(divided.experiment, clients=20)).experiment.samples_per_client == 72
    chosen = prepare(fedtrip.Experiment(method="fedavg", samples_per_client=50)).experiment
    assert prepare(changed(chosen, partition="quantity:1")).experiment.samples_per_client == 50


def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4), nn.Linear(4, 10))


def test_the_last_batch_of_every_client_is_looked_at():
    experiment = fedtrip.Experiment(partition="quantity:5", method="fedavg")
    of = sizes(prepare(experiment))
    client = of.index(max(of))
    assert client > 0  # otherwise a look at the first client alone would do
    batch_size = max(of) - 1
    with pytest.raises(fedtrip.UserError, match=f"batch_size is {batch_size}: client {client} has {max(of)} samples"):
        prepare(experiment.but(batch_size=batch_size), model=normed())
    assert prepare(experiment.but(batch_size=max(of)), model=normed())
    assert prepare(experiment.but(batch_size=batch_size), model=nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))


def test_a_client_with_one_sample_has_no_fitting_batches():
    with pytest.raises(fedtrip.UserError, match=r"client 1 has 1 samples.*accepted: a model without BatchNorm"):
        prepare(fedtrip.Experiment(partition="quantity:0.5", method="fedavg"), model=normed())


def test_counted_operations_are_the_mean_of_the_clients():
    experiment = fedtrip.Experiment(partition="quantity:0.5", method="fedavg", rounds=1, local_epochs=2)
    federation = prepare(experiment)
    forward = pass_cost(federation.module, federation.dataset.inputs).forward
    result = fedtrip.run(experiment, workers=1)
    assert result.gflops_per_round == pytest.approx(2 * 143.7 * forward / 1e9)


def test_clients_weigh_by_their_samples():
    """One round of FedAvg, all clients: Σ (n_k/n) w_k, each w_k after its own ⌈n_k/B⌉ steps."""
    x, y = torch.randn(60, 3), torch.arange(60) % 2
    module = nn.Linear(3, 2)
    experiment = fedtrip.Experiment(
        partition="quantity:1", clients=3, per_round=3, rounds=1, method="fedavg", batch_size=60, lr=0.5, momentum=0.0,
        compute="torch",
    )  # fmt: skip
    data = {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4], "mean": 0.0, "std": 1.0}
    federation = prepare(experiment, model=module, data=fedtrip.from_arrays(**data))
    of = sizes(federation)
    assert len(set(of)) == 3
    expected = np.zeros((2, 3))
    for client, n in enumerate(of):
        rows = federation.partition.share(client)
        module.zero_grad()
        nn.functional.cross_entropy(module(x[rows]), y[rows]).backward()
        expected += n / 60 * (module.weight.detach() - 0.5 * module.weight.grad).numpy()
    result = fedtrip.run(experiment, model=module, data=data, workers=1)
    assert result.state["weight"].numpy() == pytest.approx(expected, abs=1e-6)


# ---- with held-out samples


def rows_of(shares):
    return [row for client in range(shares.clients) for row in shares.share(client).tolist()]


@pytest.mark.parametrize("at", ["server", "clients"])
@pytest.mark.parametrize("partition", DIVISIONS)
def test_every_sample_is_trained_on_tested_on_or_validated_on(partition, at):
    federation = prepare(
        fedtrip.Experiment(partition=partition, method="fedavg", validation=0.15, validation_at=at, client_test=0.1)
    )
    held_out = federation.held_out
    validated = held_out.validation.tolist() if at == "server" else rows_of(held_out.client_validation)
    used = [*rows_of(federation.partition), *rows_of(held_out.own_tests), *validated]
    assert sorted(used) == list(range(1437))


def test_fewer_samples_are_the_same_share_of_what_is_held_out():
    experiment = fedtrip.Experiment(partition="quantity:1", method="fedavg", client_test=0.2, samples_per_client=72)
    federation = prepare(experiment)  # half of the 144 that there are
    assert sum(sizes(federation)) == pytest.approx(1437 * 0.8 / 2, abs=10)
    assert len(rows_of(federation.held_out.own_tests)) == pytest.approx(1437 * 0.2 / 2, abs=10)
    with pytest.raises(fedtrip.UserError, match=r"samples_per_client is 145: .*; accepted: 1 to"):
        prepare(experiment.but(samples_per_client=145))


@pytest.mark.parametrize("seed", range(3))
def test_a_clients_own_test_set_is_divided_as_its_training_samples_are(seed):
    labels = torch.arange(20_000) % 5
    data = fedtrip.from_arrays(torch.zeros(20_000, 2), labels, torch.zeros(5, 2), labels[:5], mean=0.0, std=1.0)
    for partition in ("dirichlet-classes:0.3", "shards:2", "quantity:0.5"):
        federation = prepare(
            fedtrip.Experiment(partition=partition, method="fedavg", client_test=0.2, seed=seed), data=data
        )
        tables = [
            np.stack([np.bincount(labels[shares.share(client)], minlength=5) for client in range(10)])
            for shares in (federation.partition, federation.held_out.own_tests)
        ]
        assert tables[0].sum() + tables[1].sum() == 20_000
        assert np.abs(tables[0] / 4 - tables[1]).max() <= (2 if partition != "quantity:0.5" else 5 * np.sqrt(1000))
        assert np.abs(tables[0].sum(axis=1) / 4 - tables[1].sum(axis=1)).max() <= 5


@pytest.mark.parametrize("validation", [0.05, 0.3, 0.45])
def test_rounding_in_small_classes_leaves_enough_to_divide(validation):
    """Of 9 classes of 10 samples each, 0.05 holds out one, twice as many as were counted on."""
    y = torch.arange(90) % 9
    data = fedtrip.from_arrays(torch.randn(90, 2), y, torch.randn(9, 2), y[:9])
    federation = prepare(
        fedtrip.Experiment(partition="quantity:1", clients=3, method="fedavg", validation=validation), data=data
    )
    assert sum(sizes(federation)) + len(federation.held_out.validation) == 90


def test_a_client_sees_its_own_test_set_shifted_and_the_server_what_it_validates_on_as_it_is():
    from fedtrip.training.workbench import Workbench

    experiment = fedtrip.Experiment(
        partition="feature:rotation", method="fedavg", client_test=0.2, validation=0.1, samples_per_client=50
    )
    federation = prepare(experiment)
    bench, dataset, held_out = Workbench(federation), federation.dataset, federation.held_out
    for part, shares in (("train", federation.partition), ("test", held_out.own_tests)):
        x, _ = bench._samples(part, 9)
        assert torch.equal(x, torch.rot90(dataset.normalised(dataset.x_train[shares.share(9)]), 3, dims=(-2, -1)))
    x, _ = bench._samples("validation", None)
    assert torch.equal(x, dataset.normalised(dataset.x_train[held_out.validation]))
