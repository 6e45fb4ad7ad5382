"""Partitions held against those of flwr-datasets, where both have one: the same statistics over many seeds.

Skipped where flwr-datasets is not installed: nothing else here needs it. Measured with its version 0.6.1.
"""

import warnings

import numpy as np
import pytest
import torch

from fedtrip.partitions.interface import label_counts, make_partition

theirs = pytest.importorskip("flwr_datasets.partitioner", reason="needs pip install flwr-datasets")
datasets = pytest.importorskip("datasets", reason="needs pip install 'fedtrip[hf]'")

CLASSES, CLIENTS, SEEDS = 10, 10, 60
LABELS = torch.from_numpy(np.random.default_rng(0).integers(0, CLASSES, 2000))


def their_counts(partitioner):
    partitioner.dataset = datasets.Dataset.from_dict({"label": LABELS.tolist()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = [partitioner.load_partition(client)["label"] for client in range(CLIENTS)]
    return np.stack([np.bincount(share, minlength=CLASSES) for share in shares])


def our_counts(spec, seed, samples_per_client=200):
    made = make_partition(
        spec, draw="overlap", labels=LABELS, classes=CLASSES, clients=CLIENTS,
        samples_per_client=samples_per_client, seed=seed,
    )  # fmt: skip
    return label_counts(made, LABELS, CLASSES, range(CLIENTS))


def statistics(counts):
    """What distinguishes partitions: the spread of sizes, how many classes a client has, its largest class."""
    sizes = counts.sum(axis=1)
    return {
        "smallest client": sizes.min(),
        "largest client": sizes.max(),
        "deviation of sizes": sizes.std(),
        "classes of a client": (counts > 0).sum(axis=1).mean(),
        "largest class of a client": (counts.max(axis=1) / sizes.clip(1)).mean(),
        "deviation of counts": counts.std(),
    }


def assert_alike(ours, others):
    """The means over the seeds are within 4 standard errors of each other."""
    mine, yours = ([statistics(counts) for counts in tables] for tables in (ours, others))
    for name in mine[0]:
        a, b = (np.array([one[name] for one in tables], dtype=float) for tables in (mine, yours))
        error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
        print(f"{name}: ours {a.mean():.3f}, theirs {b.mean():.3f}, standard error {error:.3f}")
        assert abs(a.mean() - b.mean()) <= 4 * error + 1e-9, name


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_shards(shards):
    assert_alike(
        [our_counts(f"shards:{shards}", seed) for seed in range(SEEDS)],
        [
            their_counts(
                theirs.ShardPartitioner(CLIENTS, partition_by="label", num_shards_per_partition=shards, seed=seed)
            )
            for seed in range(SEEDS)
        ],
    )


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_dirichlet_classes_is_their_dirichlet_without_balancing(alpha):
    assert_alike(
        [our_counts(f"dirichlet-classes:{alpha}", seed) for seed in range(SEEDS)],
        [
            their_counts(
                theirs.DirichletPartitioner(
                    CLIENTS, partition_by="label", alpha=alpha, min_partition_size=1, self_balancing=False, seed=seed
                )
            )
            for seed in range(SEEDS)
        ],
    )


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_dirichlet_is_their_inner_dirichlet(alpha):
    """With few samples each, so that hardly a class is used up: their clients share none, ours may."""
    assert_alike(
        [our_counts(f"dirichlet:{alpha}", seed, samples_per_client=20) for seed in range(SEEDS)],
        [
            their_counts(theirs.InnerDirichletPartitioner([20] * CLIENTS, partition_by="label", alpha=alpha, seed=seed))
            for seed in range(SEEDS)
        ],
    )


def test_the_two_dirichlets_are_not_the_same():
    """The comparison can tell them apart."""
    with pytest.raises(AssertionError, match="smallest client"):
        assert_alike(
            [our_counts("dirichlet:0.5", seed) for seed in range(SEEDS)],
            [our_counts("dirichlet-classes:0.5", seed) for seed in range(SEEDS)],
        )
