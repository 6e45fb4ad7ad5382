"""What must hold for every partition there is."""

import pickle

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.families import PARTITION
from fedtrip.inputs import InputSpec
from fedtrip.partitions.interface import make_partition, seen_by, sizes_of

EXAMPLES = {
    "bins": "bins:4:0.3", "dirichlet": "dirichlet:0.5", "dirichlet-classes": "dirichlet-classes:0.5",
    "feature": "feature:noise", "given": "given", "iid": "iid", "orthogonal": "orthogonal:2",
    "quantity": "quantity:0.5", "shards": "shards:2",
}  # fmt: skip
SPECS = (*EXAMPLES.values(), "feature:rotation")
CLIENTS, SAMPLES = 6, 240
RANDOM = np.random.default_rng(3)
X = torch.from_numpy(RANDOM.normal(size=(SAMPLES, 4, 4)).astype(np.float32))
CLASSES = torch.from_numpy(RANDOM.integers(0, 4, SAMPLES))
NUMBERS = X.mean(dim=(1, 2)) + CLASSES
OWNERS = torch.from_numpy(RANDOM.permutation(np.arange(SAMPLES) % CLIENTS))


def partition(spec, seed=0):
    is_bins = spec.startswith("bins")
    return make_partition(
        spec,
        draw="overlap",
        labels=NUMBERS if is_bins else CLASSES,
        classes=0 if is_bins else 4,
        clients=CLIENTS,
        samples_per_client=SAMPLES // CLIENTS,
        seed=seed,
        client_train=OWNERS if spec == "given" else None,
        inputs=InputSpec.numbers(4, 4),
    )


def test_every_partition_has_an_example_here():
    assert EXAMPLES.keys() == set(PARTITION.names())


@pytest.mark.parametrize("spec", SPECS)
def test_a_client_has_the_same_alone_and_among_others_in_any_order_and_in_another_process(spec):
    made = partition(spec)
    in_order = [made.share(client) for client in range(CLIENTS)]
    seen = [seen_by(made, client, rows, X[rows]) for client, rows in enumerate(in_order)]
    backwards, elsewhere = partition(spec), pickle.loads(pickle.dumps(partition(spec)))
    for client in reversed(range(CLIENTS)):
        for other in (partition(spec), backwards, elsewhere):
            rows = other.share(client)
            assert torch.equal(rows, in_order[client])
            assert other.samples(client) == len(rows) == len(set(rows.tolist())) > 0
            assert torch.equal(seen_by(other, client, rows, X[rows]), seen[client])


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "given"])
def test_another_seed_is_another_partition(spec):
    assert any(not torch.equal(partition(spec).share(k), partition(spec, seed=1).share(k)) for k in range(CLIENTS))


@pytest.mark.parametrize("spec", SPECS)
def test_sizes_are_said_without_a_draw_and_are_right(spec):
    made = partition(spec)
    told = sizes_of(made, spec)
    assert told in ([40], [made.samples(client) for client in range(CLIENTS)])
    assert sum(told) == (40 if len(told) == 1 else SAMPLES)
    assert {made.samples(client) for client in range(CLIENTS)} == set(told)


@pytest.mark.parametrize("spec", SPECS)
def test_it_runs_to_the_same_bits_with_any_workers_and_again_from_what_was_stored(spec):
    is_bins = spec.startswith("bins")
    y = NUMBERS if is_bins else CLASSES
    data = fedtrip.from_arrays(
        X,
        y,
        X[:9],
        y[:9],
        client_train=OWNERS if spec == "given" else None,
        targets="numbers" if is_bins else "classes",
    )
    experiment = fedtrip.Experiment(
        partition=spec, task="regression" if is_bins else "classification", method="fedavg", rounds=2, clients=CLIENTS
    )
    one = fedtrip.run(experiment, data=data, workers=1)
    assert one.experiment.partition == spec
    assert fedtrip.run(experiment, data=data, workers=2).model_sha256 == one.model_sha256
    again = fedtrip.Experiment.from_text(one.experiment.to_toml())
    assert fedtrip.run(again, data=data, workers=1).model_sha256 == one.model_sha256
