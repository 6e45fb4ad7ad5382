"""Partitions that divide the training set: shards, quantity and dirichlet-classes."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtrip.errors import UserError
from fedtrip.inputs import InputSpec
from fedtrip.partitions._proportions import cut, proportions
from fedtrip.partitions.dirichlet_classes import DirichletClasses
from fedtrip.partitions.interface import ToPartition, label_counts, make_partition
from fedtrip.partitions.quantity import Quantity
from fedtrip.partitions.shards import Shards
from fedtrip.randomness import permutation, stream

MNIST_LIKE = torch.arange(60_000) % 10
SPECS = ("shards:2", "quantity:0.5", "dirichlet-classes:0.5")


def partition(spec, **changes):
    options = {
        "draw": "overlap",
        "labels": MNIST_LIKE,
        "classes": 10,
        "clients": 10,
        "samples_per_client": 6000,
        "seed": 0,
    }
    return make_partition(spec, **(options | changes))


def to_divide(labels, clients):
    targets = torch.tensor(labels)
    classes = int(targets.max()) + 1
    return ToPartition(
        targets.numpy(), classes, clients, len(labels), "overlap", 0, None, targets, InputSpec.numbers(1)
    )


def shares(made):
    return [made.share(client).tolist() for client in range(made.clients)]


def sizes(made):
    return np.array([made.samples(client) for client in range(made.clients)])


# ---- by hand


def test_shards_by_hand():
    """Sorted 1 3 6 | 0 2 7 | 4 5, so the shards are {1, 3}, {6, 0}, {2, 7}, {4, 5}, in the places 3, 1, 2, 0 of four:
    the clients' places are 0, 1 and 2, 3."""
    assert permutation(stream(0, "partition shards"), 4).tolist() == [3, 1, 2, 0]
    labels = [1, 0, 1, 0, 2, 2, 0, 1]
    owners = Shards(2).owners(np.array(labels), to_divide(labels, clients=2))
    assert owners.tolist() == [0, 1, 1, 1, 0, 0, 0, 1]


def test_shards_that_do_not_divide_evenly_differ_by_one():
    """7 sorted samples into 4 shards: they end at ⌊7j/4⌋ = 1, 3, 5, 7."""
    labels = [0, 0, 0, 0, 1, 1, 1]
    assert Shards(2).owners(np.array(labels), to_divide(labels, clients=2)).tolist() == [1, 0, 0, 1, 1, 0, 0]


def test_quantity_by_hand():
    """8 samples by shares 0.101, 0.740, 0.158: they end at ⌊0.81⌋, ⌊6.73⌋, 8; the first takes one of the second."""
    assert proportions(stream(0, "partition quantities"), 1.0, 3) == pytest.approx(
        [0.10147, 0.74036, 0.15817], abs=1e-5
    )
    labels = [0, 1, 0, 1, 0, 1, 0, 1]
    assert Quantity(1).owners(np.array(labels), to_divide(labels, clients=3)).tolist() == [1, 1, 1, 1, 1, 1, 2, 2]
    made = partition("quantity:1", labels=torch.tensor(labels), classes=2, clients=3, samples_per_client=3)
    assert permutation(stream(0, "partition division"), 8).tolist() == [3, 0, 5, 6, 1, 4, 7, 2]
    assert shares(made) == [[4], [3, 0, 5, 6, 1], [7, 2]]
    assert sizes(made).tolist() == [1, 5, 2]


def test_dirichlet_classes_by_hand():
    """Class 0: 5 samples end at ⌊5·0.242⌋, ⌊5·0.608⌋, 5; class 1: 5 samples at ⌊5·0.258⌋, ⌊5·0.436⌋, 5."""
    drawn = [proportions(stream(0, "partition clients of class", label), 1.0, 3).cumsum() for label in (0, 1)]
    assert drawn[0] == pytest.approx([0.2421, 0.6084, 1], abs=1e-4)
    assert drawn[1] == pytest.approx([0.2585, 0.4361, 1], abs=1e-4)
    labels = [0, 1, 0, 1, 0, 0, 0, 1, 1, 1]
    owners = DirichletClasses(1).owners(np.array(labels), to_divide(labels, clients=3))
    assert owners.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2]


def test_a_whole_is_cut_by_shares():
    assert cut(10, np.array([0.25, 0.5, 0.25])).tolist() == [2, 5, 3]
    assert cut(0, np.array([0.5, 0.5])).tolist() == [0, 0]
    assert cut(3, np.full(10, 0.1)).tolist() == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]


# ---- what a division is


@pytest.mark.parametrize("spec", SPECS)
def test_every_sample_has_one_client(spec):
    made = partition(spec)
    assert sorted(sample for share in shares(made) for sample in share) == list(range(60_000))
    assert sizes(made).tolist() == [len(share) for share in shares(made)]


@pytest.mark.parametrize("spec", SPECS)
def test_a_share_is_a_function_of_the_seed_alone(spec):
    in_order = shares(partition(spec))
    assert partition(spec).share(7).tolist() == in_order[7]
    assert partition(spec).samples(7) == len(in_order[7])
    assert shares(pickle.loads(pickle.dumps(partition(spec)))) == in_order
    assert shares(partition(spec, draw="disjoint")) == in_order
    assert partition(spec, seed=1).share(7).tolist() != in_order[7]
    made = partition(spec)
    made.share(7).zero_()
    assert made.share(7).tolist() == in_order[7]


@pytest.mark.parametrize("spec", SPECS)
def test_fewer_samples_are_a_random_part_of_all_and_their_mean(spec):
    made = partition(spec, samples_per_client=100)
    used = [sample for share in shares(made) for sample in share]
    assert len(used) == len(set(used)) == 1000
    assert np.mean(used) == pytest.approx(30_000, abs=5 * 60_000 / np.sqrt(12 * 1000))
    if spec != "shards:2":
        assert len(set(sizes(made))) > 1


@settings(max_examples=100, deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    spec=st.sampled_from(
        ["shards:1", "quantity:1e-320", "quantity:0.1", "quantity:1e308", "dirichlet-classes:1e-320",
         "dirichlet-classes:0.1", "dirichlet-classes:1e308"]
    ),
    seed=st.integers(0, 2**70),
    data=st.data(),
)  # fmt: skip
def test_no_client_is_left_without_a_sample(labels, spec, seed, data):
    clients = data.draw(st.integers(1, len(labels)))
    each = data.draw(st.integers(1, -(-len(labels) // clients)))
    made = partition(spec, labels=torch.tensor(labels), classes=6, clients=clients, samples_per_client=each, seed=seed)
    used = [sample for share in shares(made) for sample in share]
    assert len(used) == len(set(used)) == min(clients * each, len(labels))
    assert sizes(made).min() >= 1
    assert made.share(0).dtype == torch.int64


def test_proportions_do_not_depend_on_how_many_samples_there_are():
    """So a part of the training set is divided as the whole is."""
    whole = label_counts(partition("dirichlet-classes:0.5"), MNIST_LIKE, 10, range(10))
    part = label_counts(
        partition("dirichlet-classes:0.5", labels=MNIST_LIKE[:6000], samples_per_client=600), MNIST_LIKE, 10, range(10)
    )
    assert np.abs(whole / 10 - part).max() <= 1
    many, few = (sizes(partition("quantity:0.5", samples_per_client=n)) for n in (6000, 600))
    assert np.abs(many / 10 - few).max() <= 1
    two, four = (
        label_counts(
            partition("shards:2", labels=MNIST_LIKE[:n], samples_per_client=n // 10), MNIST_LIKE, 10, range(10)
        )
        for n in (6000, 60_000)
    )
    assert (two * 10 == four).all()


# ---- their statistics


@pytest.mark.parametrize(("clients", "shards_each"), [(10, 2), (100, 2), (20, 5)])
def test_shards_give_equal_sizes_and_few_classes(clients, shards_each):
    """McMahan et al.: 100 clients with 2 shards of 300 samples, so that most have samples of two digits."""
    made = partition(f"shards:{shards_each}", clients=clients, samples_per_client=60_000 // clients)
    assert set(sizes(made)) == {60_000 // clients}
    counts = label_counts(made, MNIST_LIKE, 10, range(clients))
    assert (counts > 0).sum(axis=1).max() <= shards_each  # shards of 300 end where the classes of 6000 end
    classes = 10 * (1 - (1 - 0.1) ** shards_each)  # of independent draws; without replacement hardly more
    assert (counts > 0).sum(axis=1).mean() == pytest.approx(classes, abs=0.35)


@pytest.mark.parametrize("beta", [0.1, 0.5, 5.0])
def test_sizes_have_the_mean_and_the_variance_of_the_distribution(beta):
    """Of Dirichlet(β, …, β) with N clients: mean 1/N, variance (1/N)(1 − 1/N)/(N·β + 1)."""
    seeds = 300
    drawn = np.stack([sizes(partition(f"quantity:{beta}", labels=MNIST_LIKE[:20_000], samples_per_client=2000, seed=s))
                      for s in range(seeds)]) / 20_000  # fmt: skip
    variance = 0.09 / (10 * beta + 1)
    assert drawn.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=5 * np.sqrt(variance / seeds))
    assert drawn.var() == pytest.approx(variance, rel=0.15)


def test_quantity_leaves_the_classes_as_they_are():
    counts = label_counts(partition("quantity:0.5"), MNIST_LIKE, 10, range(10))
    expected = counts.sum(axis=1, keepdims=True) / 10
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected) + 1).all()


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_a_class_is_divided_with_the_mean_and_the_variance_of_the_distribution(alpha):
    seeds = 60
    tables = [
        label_counts(
            partition(f"dirichlet-classes:{alpha}", labels=MNIST_LIKE[:20_000], samples_per_client=2000, seed=seed),
            MNIST_LIKE, 10, range(10),
        )
        for seed in range(seeds)
    ]  # fmt: skip
    shares_of_class = np.stack(tables) / 2000
    variance = 0.09 / (10 * alpha + 1)
    assert shares_of_class.mean(axis=(0, 2)) == pytest.approx(
        np.full(10, 0.1), abs=5 * np.sqrt(variance / (10 * seeds))
    )
    assert shares_of_class.var() == pytest.approx(variance, rel=0.15)
    assert np.corrcoef(shares_of_class[:, :, 0].ravel(), shares_of_class[:, :, 1].ravel())[0, 1] == pytest.approx(
        0, abs=5 / np.sqrt(10 * seeds)
    )  # each class has proportions of its own


# ---- refused


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ("shards:2", {"draw": "nested"}, "draw is 'nested': partition 'shards:2' gives every sample to one client"),
        ("quantity:1", {"samples_per_client": 6001}, "samples_per_client is 6001: the 60000 samples of the training "
         "set are divided over 10 clients; accepted: 1 to 6000, or nothing for all of them"),
        ("quantity:1", {"samples_per_client": 0}, "samples_per_client is 0"),
        ("dirichlet-classes:1", {"clients": 60_001, "samples_per_client": 1}, "accepted: at most 60000"),
        ("shards:7", {"samples_per_client": 6}, "'shards:7' with 10 clients cuts 60 samples into 70 shards; "
         "accepted: at most 6 shards for each client"),
        ("shards:0", {}, "option 'shards' is 0; accepted: greater than or equal to 1"),
        ("quantity:0", {}, "option 'beta' is 0; accepted: greater than 0"),
        ("quantity", {}, "needs the option 'beta'; accepted: quantity:BETA"),
        ("dirichlet-classes:x", {}, "option 'alpha' is 'x'; accepted: a valid number"),
        ("dirichlet-classes:1:2", {}, "option 'alpha' is '1:2'"),
        ("shards:2", {"client_train": MNIST_LIKE}, "'shards:2' cannot be drawn from data that are already split"),
        ("shards:2", {"classes": 0}, "partition 'shards:2' needs classes"),
        ("dirichlet-classes:1", {"classes": 0}, "partition 'dirichlet-classes:1' needs classes"),
    ],
)  # fmt: skip
def test_what_cannot_be_divided_is_refused(spec, changes, message):
    with pytest.raises(UserError) as refused:
        partition(spec, **changes)
    assert message in str(refused.value)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("client", [-1, 10])
def test_a_client_that_does_not_exist_is_an_error(spec, client):
    for ask in (partition(spec).share, partition(spec).samples):
        with pytest.raises(IndexError, match=f"client {client} "):
            ask(client)
