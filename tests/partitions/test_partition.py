"""Who holds which samples: the draw, its three relations between clients, and everything that is refused."""

import pickle
import time
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtrip.errors import UserError
from fedtrip.families import PARTITION
from fedtrip.partitions._draws import _smallest
from fedtrip.partitions.interface import label_counts, make_partition

MNIST_LIKE = torch.arange(60_000) % 10
DIGITS_LIKE = torch.arange(1437) % 10
DRAWS = ("overlap", "nested", "disjoint")


def partition(spec="dirichlet:0.5", **changes):
    options = {
        "draw": "overlap",
        "labels": MNIST_LIKE,
        "classes": 10,
        "clients": 10,
        "samples_per_client": 1000,
        "seed": 0,
    }
    return make_partition(spec, **(options | changes))


def all_shares(made):
    return [made.share(client).tolist() for client in range(made.clients)]


def distinct(made):
    return len(set().union(*all_shares(made)))


# ---- what a share is


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.5", "orthogonal:5"])
def test_a_share_is_a_function_of_the_seed_alone(spec, draw):
    in_order = all_shares(partition(spec, draw=draw))
    backwards = partition(spec, draw=draw)
    assert [backwards.share(client).tolist() for client in reversed(range(10))] == in_order[::-1]
    assert partition(spec, draw=draw).share(7).tolist() == in_order[7]
    assert partition(spec, draw=draw, seed=1).share(7).tolist() != in_order[7]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_share_cannot_be_spoilt_by_its_reader(draw):
    made = partition(draw=draw)
    before = made.share(3).clone()
    made.share(3).zero_()
    assert torch.equal(made.share(3), before)


@pytest.mark.parametrize("draw", ["overlap", "nested"])
def test_a_share_does_not_depend_on_how_many_clients_there_are(draw):
    assert torch.equal(partition(draw=draw).share(4), partition(draw=draw, clients=5000).share(4))


@pytest.mark.parametrize("draw", DRAWS)
def test_a_partition_travels_to_another_process(draw):
    made = partition(draw=draw)
    assert all_shares(pickle.loads(pickle.dumps(made))) == all_shares(made)


@settings(max_examples=150, deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    clients=st.integers(1, 6),
    spec=st.sampled_from(["iid", "dirichlet:1e-320", "dirichlet:0.001", "dirichlet:0.5", "dirichlet:1e308"]),
    draw=st.sampled_from(DRAWS),
    seed=st.integers(0, 2**70),
    data=st.data(),
)
def test_every_client_has_exactly_n_distinct_samples_of_the_training_set(labels, clients, spec, draw, seed, data):
    most = len(labels) // clients if draw == "disjoint" else len(labels)
    if most < 1:
        return
    samples = data.draw(st.integers(1, most))
    made = make_partition(
        spec,
        draw=draw,
        labels=torch.tensor(labels),
        classes=6,
        clients=clients,
        samples_per_client=samples,
        seed=seed,
    )
    for client in range(clients):
        share = made.share(client)
        assert share.dtype == torch.int64
        assert made.samples(client) == len(share) == len(set(share.tolist())) == samples
        assert 0 <= share.min() <= share.max() < len(labels)
    if draw == "disjoint":
        assert distinct(made) == clients * samples


@settings(max_examples=80, deadline=None)
@given(
    classes=st.integers(1, 12),
    clients=st.integers(1, 15),
    draw=st.sampled_from(DRAWS),
    samples=st.integers(1, 8),
    data=st.data(),
)
def test_orthogonal_clients_have_only_their_own_classes_and_groups_never_mix(classes, clients, draw, samples, data):
    clusters = data.draw(st.integers(1, min(classes, clients)))
    labels = torch.arange(classes).repeat_interleave(8 * clients)
    made = partition(
        f"orthogonal:{clusters}",
        labels=labels,
        classes=classes,
        clients=clients,
        draw=draw,
        samples_per_client=samples,
    )
    groups = np.array_split(np.arange(classes), clusters)
    for client in range(clients):
        assert set(labels[made.share(client)].tolist()) <= set(groups[client * clusters // clients])


# ---- overlap, nested, disjoint


@pytest.mark.parametrize("alpha", ["0.1", "0.5", "5"])
def test_nested_draws_of_a_class_hold_one_another(alpha):
    made = partition(f"dirichlet:{alpha}", draw="nested")
    shares = [made.share(client) for client in range(10)]
    for one, other in combinations(shares, 2):
        for label in range(10):
            fewer, more = sorted((set(s[MNIST_LIKE[s] == label].tolist()) for s in (one, other)), key=len)
            assert fewer <= more


def test_nested_draws_hold_few_distinct_samples_as_in_the_authors_framework_and_independent_ones_many():
    nested = np.mean([distinct(partition(draw="nested", seed=seed)) for seed in range(20)])
    overlap = np.mean([distinct(partition(draw="overlap", seed=seed)) for seed in range(5)])
    assert 3200 < nested < 3800
    assert 9000 < overlap < 9600


def test_independent_iid_draws_overlap_as_often_as_chance_has_it():
    assert distinct(partition("iid")) == pytest.approx(60_000 * (1 - (1 - 1 / 60) ** 10), rel=0.01)


@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.1", "orthogonal:5", "orthogonal:10"])
def test_disjoint_draws_can_use_up_the_training_set(spec):
    made = partition(spec, draw="disjoint", samples_per_client=6000)
    assert sorted(sample for share in all_shares(made) for sample in share) == list(range(60_000))


def test_of_equal_keys_the_first_are_taken():
    keys = np.array([2.0, 1.0, 3.0, 1.0, 2.0, 2.0, np.inf, np.inf])
    assert _smallest(keys, 4).tolist() == [1, 3, 0, 4]
    assert _smallest(keys, 7).tolist() == [1, 3, 0, 4, 5, 2, 6]
    same = np.zeros(5000)
    assert _smallest(same, 1234).tolist() == list(range(1234))


# ---- the weights


def test_iid_shares_are_like_the_whole_training_set():
    counts = label_counts(partition("iid", samples_per_client=6000), MNIST_LIKE, 10, range(10))
    assert np.abs(counts - 600).max() < 5 * np.sqrt(6000 * 0.1 * 0.9)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_dirichlet_class_shares_have_the_mean_and_the_variance_of_the_distribution(alpha):
    """Of Dirichlet(α, …, α) with C classes: mean 1/C, variance (1/C)(1 − 1/C)/(C·α + 1)."""
    clients = 400
    made = partition(f"dirichlet:{alpha}", clients=clients, samples_per_client=200)
    shares = label_counts(made, MNIST_LIKE, 10, range(clients)) / 200
    variance = 0.09 / (10 * alpha + 1)
    assert shares.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=5 * np.sqrt(variance / clients))
    sampling = (0.09 - variance) / 200  # a client's 200 samples only estimate its probabilities
    assert shares.var() == pytest.approx(variance + sampling, rel=0.15)


def test_small_alpha_leaves_a_client_one_or_two_classes_and_half_three_or_four():
    """The paper under its Figure 4: mostly 1 or 2 classes with Dir-0.1, 3 or 4 with Dir-0.5."""
    for alpha, expected in (("0.1", (1, 2)), ("0.5", (3, 4))):
        counts = label_counts(partition(f"dirichlet:{alpha}", clients=200), MNIST_LIKE, 10, range(200))
        most_first = np.sort(counts, axis=1)[:, ::-1].cumsum(axis=1)
        needed = (most_first >= 750).argmax(axis=1) + 1  # classes that make up three quarters of a client's samples
        assert expected[0] <= np.median(needed) <= expected[1]


@pytest.mark.parametrize("alpha", ["0.01", "1e-6", "1e-300", "1e-320"])
@pytest.mark.parametrize("draw", ["overlap", "nested"])
def test_a_client_whose_class_is_used_up_goes_on_with_others(alpha, draw):
    made = partition(f"dirichlet:{alpha}", labels=DIGITS_LIKE, clients=50, samples_per_client=400, draw=draw)
    counts = label_counts(made, DIGITS_LIKE, 10, range(50))
    assert all(len(set(share)) == 400 for share in all_shares(made))
    held = np.bincount(DIGITS_LIKE, minlength=10)
    assert (counts <= held).all()
    assert (np.sort(counts, axis=1)[:, -2:] >= 140).mean() > 0.9  # two classes of 143 or 144 are not enough for 400


@pytest.mark.parametrize("alpha", ["1e-3", "1e-18", "1e-320"])
def test_samples_of_a_class_are_drawn_at_random_even_beside_enormous_log_weights(alpha):
    """With keys such as 1e20 + log E the E would be lost to rounding, and clients of a class hold the same samples."""
    made = partition(f"dirichlet:{alpha}", clients=30, samples_per_client=100)
    assert (label_counts(made, MNIST_LIKE, 10, range(30)).max(axis=1) >= 90).mean() > 0.9  # one class a client
    assert 2800 < distinct(made) < 3000  # of 3000 draws about 3000²/(2·60,000) = 75 twice


def test_weighted_draws_have_the_probabilities_of_sampling_without_replacement():
    """Two samples a, a and one b with weights (w, w, 1): the first is b with probability 1/(2w + 1)."""
    labels = torch.tensor([0, 0, 1])
    clients = 4000
    made = partition("dirichlet:1", labels=labels, classes=2, clients=clients, samples_per_client=1)
    # With α = 1 and p uniform on (0, 1): P(b) = ∫ (1 − p)/(2p + 1 − p) dp = 2·ln 2 − 1.
    drawn_b = np.mean([made.share(client).item() == 2 for client in range(clients)])
    assert drawn_b == pytest.approx(2 * np.log(2) - 1, abs=5 * 0.49 / np.sqrt(clients))


def test_orthogonal_classes_are_those_of_the_paper():
    five = label_counts(partition("orthogonal:5"), MNIST_LIKE, 10, range(10)) > 0
    assert [np.flatnonzero(row).tolist() for row in five] == [[2 * (k // 2), 2 * (k // 2) + 1] for k in range(10)]
    ten = label_counts(partition("orthogonal:10"), MNIST_LIKE, 10, range(10)) > 0
    assert [np.flatnonzero(row).tolist() for row in ten] == [[k] for k in range(10)]


def test_label_counts_has_a_row_for_each_client_asked_for():
    made = partition("orthogonal:10", samples_per_client=7)
    assert label_counts(made, MNIST_LIKE, 10, [3, 0]).tolist() == [[0] * 3 + [7] + [0] * 6, [7] + [0] * 9]
    assert label_counts(made, MNIST_LIKE, 10, []).shape == (0, 10)


# ---- cost


@pytest.mark.parametrize("draw", ["overlap", "nested"])
@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.5", "orthogonal:5"])
def test_a_million_clients_cost_nothing_until_they_take_part(spec, draw):
    partition(spec, draw=draw).share(0)
    start = time.process_time()
    made = partition(spec, draw=draw, clients=1_000_000)
    assert len(made.share(999_999)) == made.samples(123_456) == 1000
    assert time.process_time() - start < 1.0


def test_disjoint_clients_are_not_drawn_before_one_takes_part():
    start = time.process_time()
    assert partition("iid", draw="disjoint", clients=60_000, samples_per_client=1).samples(59_999) == 1
    assert time.process_time() - start < 1.0


# ---- data that come split


def test_given_is_the_split_of_the_data():
    owners = torch.tensor([2, 0, 1, 2, 2, 0])
    made = partition("given", client_train=owners, clients=3)
    assert made.clients == 3
    assert all_shares(made) == [[1, 5], [2], [0, 3, 4]]
    assert [made.samples(client) for client in range(3)] == [2, 1, 3]


def test_given_keeps_the_order_of_the_training_set():
    owners = torch.from_numpy(np.random.default_rng(0).integers(0, 5, 2000))
    made = partition("given", client_train=owners, clients=5)
    assert all_shares(made) == [np.flatnonzero(owners == client).tolist() for client in range(5)]


def test_given_shares_cannot_be_spoilt_by_their_reader():
    made = partition("given", client_train=torch.tensor([0, 1, 0]), clients=2)
    made.share(0).zero_()
    assert made.share(0).tolist() == [0, 2]


# ---- refused


@pytest.mark.parametrize("spec", ["iid", "given", "dirichlet:0.5", "dirichlet:1e-3", "orthogonal:5"])
def test_well_written_specs_pass(spec):
    PARTITION.make(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dirichet:0.5", "partition 'dirichet' is unknown; did you mean 'dirichlet:ALPHA'"),
        ("dirichet", "partition 'dirichet' is unknown; did you mean 'dirichlet:ALPHA'"),
        ("", "partition '' is unknown; accepted: bins:BINS, dirichlet:ALPHA, dirichlet-classes:ALPHA, feature:SHIFT"),
        ("dirichlet", "partition 'dirichlet' needs the option 'alpha'"),
        ("dirichlet:", "option 'alpha' is ''"),
        ("dirichlet:much", "partition 'dirichlet:much': option 'alpha' is 'much'; accepted: a valid number"),
        ("dirichlet:0", "option 'alpha' is 0; accepted: greater than 0"),
        ("dirichlet:-1", "option 'alpha' is -1; accepted: greater than 0"),
        ("dirichlet:inf", "option 'alpha' is inf; accepted: a finite number"),
        ("dirichlet:nan", "option 'alpha' is nan"),
        ("dirichlet:0.5:2", "partition 'dirichlet:0.5:2': option 'alpha' is '0.5:2'"),
        ("orthogonal", "partition 'orthogonal' needs the option 'clusters'"),
        ("orthogonal:", "option 'clusters' is ''"),
        ("orthogonal:2.5", "option 'clusters' is 2.5; accepted: a valid integer"),
        ("orthogonal:0", "option 'clusters' is 0; accepted: greater than or equal to 1"),
        ("orthogonal:-3", "option 'clusters' is -3"),
        ("iid:3", "partition 'iid:3' is not accepted: 'iid' has no parameter"),
        ("given:", "'given' has no parameter"),
    ],
)
def test_badly_written_specs_are_refused_without_data_and_with(spec, message):
    with pytest.raises(UserError) as cheap:
        PARTITION.make(spec)
    with pytest.raises(UserError) as full:
        partition(spec)
    assert message in str(cheap.value)
    assert str(full.value) == str(cheap.value)


SPLIT = torch.arange(60_000) % 10


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ("iid", {"draw": "nestd"}, "draw 'nestd' is unknown; did you mean 'nested'?"),
        ("iid", {"clients": 0}, "clients 0 is not accepted; accepted: an integer from 1"),
        ("iid", {"samples_per_client": 0}, "samples_per_client 0 is not accepted; accepted: an integer from 1"),
        ("iid", {"samples_per_client": 60_001}, "samples_per_client 60001 is more than the training set holds"),
        ("iid", {"classes": 9}, "labels 0 to 9 are not accepted; accepted: 0 to 8"),
        ("iid", {"labels": MNIST_LIKE - 1}, "labels -1 to 8 are not accepted; accepted: 0 to 9"),
        ("iid", {"draw": "disjoint", "clients": 61}, "samples_per_client = 61000 samples; accepted: at most 60000"),
        ("orthogonal:11", {"clients": 20}, "'orthogonal:11' has more clusters than classes; accepted: 1 to 10"),
        ("orthogonal:8", {"clients": 7}, "'orthogonal:8' has more clusters than clients; accepted: 1 to 7"),
        (
            "orthogonal:5",
            {"samples_per_client": 12_001},
            "samples_per_client 12001 is too many for partition 'orthogonal:5' with draw 'overlap': "
            "cluster 0 (classes 0 to 1) holds 12000 samples; accepted: at most 12000",
        ),
        ("given", {}, "partition 'given' needs data that are already split"),
        ("iid", {"client_train": SPLIT}, "partition 'iid' cannot be drawn from data that are already split"),
        ("dirichlet:0.5", {"client_train": SPLIT, "draw": "nested"}, "already split; accepted: given"),
        ("given", {"client_train": SPLIT, "clients": 11}, "11 is not accepted: the data are split; accepted: 10"),
        ("given", {"client_train": SPLIT * 2, "clients": 19}, "client 1 of the split data has no samples"),
        ("given", {"client_train": SPLIT - 1, "clients": 9}, "client_train of the data is not accepted"),
    ],
)  # fmt: skip
def test_what_the_data_cannot_give_is_refused(spec, changes, message):
    with pytest.raises(UserError) as refused:
        partition(spec, **changes)
    assert message in str(refused.value)


def test_a_disjoint_cluster_that_runs_out_is_named():
    """Clusters of 2 clients and 2 classes; of classes 4 and 5 there are 150 samples: for 2 × 75, not 2 × 76."""
    labels = torch.arange(10).repeat_interleave(torch.tensor([100, 100, 100, 100, 75, 75, 100, 100, 100, 100]))
    assert distinct(partition("orthogonal:5", draw="disjoint", labels=labels, samples_per_client=75)) == 750
    with pytest.raises(UserError) as refused:
        partition("orthogonal:5", draw="disjoint", labels=labels, samples_per_client=76)
    assert "cluster 2 (classes 4 to 5) holds 150 samples for its 2 clients together; accepted: at most 75" in str(
        refused.value
    )
    assert len(partition("orthogonal:5", draw="overlap", labels=labels, samples_per_client=150).share(4)) == 150


@pytest.mark.parametrize(("clients", "clusters"), [(10, 3), (7, 7), (11, 4), (5, 2), (9, 1)])
def test_a_disjoint_cluster_is_refused_exactly_when_its_own_clients_need_more(clients, clusters):
    """10 clients in 3 clusters are 4, 3 and 3; each cluster has just enough for its own."""
    members = np.bincount([k * clusters // clients for k in range(clients)])
    labels = torch.arange(clusters).repeat_interleave(torch.tensor(members * 5))
    options = {"labels": labels, "classes": clusters, "clients": clients, "draw": "disjoint"}
    assert distinct(partition(f"orthogonal:{clusters}", samples_per_client=5, **options)) == 5 * clients
    with pytest.raises(UserError):
        partition(f"orthogonal:{clusters}", samples_per_client=6, **options)


@pytest.mark.parametrize("client", [-1, 10])
@pytest.mark.parametrize(
    ("spec", "changes"), [("iid", {}), ("iid", {"draw": "disjoint"}), ("given", {"client_train": SPLIT})]
)
def test_a_client_that_does_not_exist_is_an_error(spec, changes, client):
    made = partition(spec, **changes)
    with pytest.raises(IndexError, match=f"client {client} "):
        made.share(client)
    with pytest.raises(IndexError, match=f"client {client} "):
        made.samples(client)
