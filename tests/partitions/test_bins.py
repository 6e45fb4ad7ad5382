"""Label skew for a regression: quantile bins, drawn as classes are."""

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.errors import UserError
from fedtrip.families import PARTITION
from fedtrip.partitions.bins import Bins
from fedtrip.partitions.interface import label_counts, make_partition

TARGETS = torch.from_numpy(np.random.default_rng(0).gamma(0.5, size=5000).astype(np.float32))


def partition(spec, **changes):
    options = {
        "draw": "overlap",
        "labels": TARGETS,
        "classes": 0,
        "clients": 10,
        "samples_per_client": 200,
        "seed": 0,
    }
    return make_partition(spec, **(options | changes))


def test_bins_by_hand():
    """Sorted −1 0 2 3 3 7 9: the bins begin at the ⌈7/3⌉ = 3rd and the ⌈14/3⌉ = 5th, counted from 0."""
    targets = torch.tensor([3.0, 9.0, -1.0, 2.0, 7.0, 3.0, 0.0])
    assert Bins(3).bin_of(targets).tolist() == [1, 2, 0, 0, 2, 1, 0]
    assert Bins(1).bin_of(targets).tolist() == [0] * 7
    assert Bins(7).bin_of(targets).tolist() == [4, 6, 0, 2, 5, 4, 1]  # bin 3 is empty: 3 = 3 are in one
    assert Bins(3).bin_of(targets.reshape(7, 1)).tolist() == Bins(3).bin_of(targets).tolist()


def test_bins_hold_equally_many():
    assert set(np.bincount(Bins(10).bin_of(TARGETS))) == {500}


@pytest.mark.parametrize("draw", ["overlap", "nested", "disjoint"])
def test_a_client_has_what_dirichlet_gives_it_of_the_bins(draw):
    bins = torch.from_numpy(Bins(5).bin_of(TARGETS))
    made = partition("bins:5:0.2", draw=draw)
    expected = partition("dirichlet:0.2", labels=bins, classes=5, draw=draw)
    for client in range(10):
        assert torch.equal(made.share(client), expected.share(client))
        assert made.samples(client) == 200


def test_a_small_alpha_means_few_bins():
    bins = torch.from_numpy(Bins(10).bin_of(TARGETS))
    largest = {
        alpha: label_counts(partition(f"bins:10:{alpha}"), bins, 10, range(10)).max(axis=1).mean()
        for alpha in ("0.05", "0.5", "100")
    }
    assert largest["0.05"] > 130 > largest["0.5"] > 50 > largest["100"]


def test_how_it_is_written():
    assert PARTITION.make("bins:8") == Bins(8, 0.5)
    assert PARTITION.make("bins:8:2") == Bins(8, 2)
    assert fedtrip.Experiment(partition="bins:8").partition == "bins:8"
    assert fedtrip.Experiment(partition=Bins(8, 0.1)).partition == "bins:8:0.1"
    assert fedtrip.Experiment(partition={"name": "bins:8:0.1"}).partition == "bins:8:0.1"
    with pytest.raises(UserError, match="gives 'alpha' twice"):
        PARTITION.make({"name": "bins:8:0.1", "alpha": 0.2})
    changed = PARTITION.with_option(PARTITION.read("bins:8:0.1"), "bins", 4)
    assert PARTITION.make(changed) == Bins(4, 0.1)


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ("bins:5", {"labels": torch.arange(50) % 5, "classes": 5}, "'bins:5:0.5' needs targets of one number a sample"),
        ("bins:5", {"labels": TARGETS.reshape(-1, 2)}, "needs targets of one number a sample"),
        ("bins:5001", {}, "has more bins than samples; accepted: 1 to 5000"),
        ("bins:0", {}, "option 'bins' is 0; accepted: greater than or equal to 1"),
        ("bins:2.5", {}, "option 'bins' is 2.5; accepted: a valid integer"),
        ("bins:5:0", {}, "option 'alpha' is 0; accepted: greater than 0"),
        ("bins:5:1:2", {}, "option 'alpha' is '1:2'"),
        ("bins", {}, "needs the option 'bins'; accepted: bins:BINS"),
        ("bins:5", {"client_train": torch.arange(5000) % 10}, "cannot be drawn from data that are already split"),
    ],
)
def test_what_has_no_bins_is_refused(spec, changes, message):
    with pytest.raises(UserError) as refused:
        partition(spec, **changes)
    assert message in str(refused.value)


def test_a_regression_runs_on_bins():
    x = torch.randn(300, 4)
    experiment = fedtrip.Experiment(
        task="regression", partition="bins:5:0.1", method="fedavg", rounds=2, samples_per_client=30, clients=5
    )
    result = fedtrip.run(experiment, data=(x, x.sum(1), x[:50], x[:50].sum(1)), workers=1)
    assert result.experiment.partition == "bins:5:0.1"
    assert len(result.records) == 2
