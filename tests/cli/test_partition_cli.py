"""`fedtrip partition`: the table and the figure."""

import json

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def folder(here):
    return here


def test_without_any_option(fedtrip, here):
    """Figure 4's partitions as far as digits suffices: 400 samples a client are too many for its orthogonal ones."""
    ended = fedtrip("partition")
    assert ended.code == 0
    assert "digits, dirichlet:0.1: samples of each class" in ended.out
    assert "digits, dirichlet:0.5: samples of each class" in ended.out
    assert ended.err.count("left out: samples_per_client 400 is too many") == 2
    assert (here / "partition.png").read_bytes().startswith(b"\x89PNG")
    assert max(map(len, ended.out.splitlines())) <= 80


def test_what_was_asked_for_is_drawn_or_refused(fedtrip, here):
    asked = ("partition", "--partition", "iid, orthogonal:5", "--out", "figure.svg", "--json")
    refused = fedtrip(*asked)
    assert (refused.code, refused.out) == (2, "")
    assert "accepted: at most 288" in refused.err
    assert list(here.iterdir()) == []
    printed = json.loads(fedtrip(*asked, "--samples-per-client", 100, "--clients", 5).out)
    assert printed["figure"] == "figure.svg"
    counts = {spec: np.array(table) for spec, table in printed["counts"].items()}
    assert list(counts) == ["iid", "orthogonal:5"]
    assert all(table.shape == (5, 10) and (table.sum(axis=1) == 100).all() for table in counts.values())
    assert all((row > 0).sum() == 2 for row in counts["orthogonal:5"])
    assert "<svg" in (here / "figure.svg").read_text()


def test_it_shows_what_a_run_uses(fedtrip):
    from fedtrip.experiment.description import Experiment
    from fedtrip.experiment.federation import prepare
    from fedtrip.partitions.interface import label_counts

    printed = json.loads(fedtrip("partition", "--partition", "dirichlet:0.5", "--seed", 3, "--json").out)
    federation = prepare(Experiment(seed=3))
    expected = label_counts(federation.partition, federation.dataset.y_train, 10, range(10))
    assert printed["counts"]["dirichlet:0.5"] == expected.tolist()


def test_data_that_come_split(fedtrip, here):
    np.savez(
        here / "split.npz", x_train=np.zeros((6, 2)), y_train=[0, 1, 0, 1, 1, 1], x_test=np.zeros((1, 2)), y_test=[0],
        client_train=[0, 0, 0, 1, 1, 1],
    )  # fmt: skip
    printed = json.loads(fedtrip("partition", "--dataset", "npz:split.npz", "--json").out)
    assert printed["counts"] == {"given": [[2, 1], [0, 3]]}


def test_unequal_sizes_are_those_of_a_run_that_uses_every_sample(fedtrip):
    asked = ("partition", "--partition", "shards:2,quantity:0.5,dirichlet-classes:0.5", "--json")
    counts = {spec: np.array(table) for spec, table in json.loads(fedtrip(*asked).out)["counts"].items()}
    assert [table.sum() for table in counts.values()] == [1437] * 3
    sizes = {spec: table.sum(axis=1) for spec, table in counts.items()}
    assert np.ptp(sizes["shards:2"]) <= 2
    assert np.ptp(sizes["quantity:0.5"]) > 100
    assert all(size.min() >= 1 for size in sizes.values())


def test_targets_that_are_numbers_are_shown_in_bins(fedtrip, here):
    y = np.arange(60, dtype=np.float32) ** 2
    np.savez(here / "numbers.npz", x_train=np.zeros((60, 2)), y_train=y, x_test=np.zeros((1, 2)), y_test=y[:1])
    asked = ("partition", "--dataset", "npz:numbers.npz", "--task", "regression", "--clients", 3)
    shown = fedtrip(*asked, "--partition", "bins:4:0.1,iid", "--samples-per-client", 15)
    assert "npz:numbers.npz, bins:4:0.1: samples of each bin" in shown.out
    counts = json.loads(fedtrip(*asked, "--partition", "bins:4:0.1,iid", "--json").out)["counts"]
    assert [np.array(table).shape for table in counts.values()] == [(3, 4), (3, 10)]
    assert all(sum(row) == 20 for table in counts.values() for row in table)
    assert list(json.loads(fedtrip(*asked, "--json").out)["counts"]) == ["bins:10", "iid"]
    refused = fedtrip(*asked, "--partition", "dirichlet:0.5")
    assert (refused.code, refused.out) == (2, "")
    assert "accepted: iid, quantity:BETA, feature:SHIFT, bins:BINS for numbers" in refused.err


def test_many_clients(fedtrip):
    ended = fedtrip("partition", "--partition", "iid", "--clients", 1_000_000, "--samples-per-client", 5)
    assert "the first 50 of 1,000,000 clients" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "figure.jpg"), "--out 'figure.jpg' has an unknown ending; accepted: .png, .pdf, .svg"),
        (("--out", "absent/figure.png"), "the folder 'absent' does not exist"),
        (("--dataset", "digit"), "data set 'digit' is unknown; did you mean 'digits'?"),
        (("--partition", "dirichlet"), "partition 'dirichlet' needs the option 'alpha'; accepted: dirichlet:ALPHA"),
        (("--draw", "all"), "draw is 'all'; accepted: 'overlap', 'nested' or 'disjoint'"),
        (("--clients", 0), "clients is 0; accepted: greater than or equal to 1"),
        (("--draw", "disjoint"), "draw 'disjoint' needs 10 clients × 400"),
    ],
)
def test_what_is_refused(fedtrip, here, options, message):
    ended = fedtrip("partition", *options)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert list(here.iterdir()) == []
