"""Combining: by hand, equal clients, one client, the order of clients, and outliers."""

import numpy as np
import pytest
import torch

from fedtrip.families import COMBINE

RULES = ["mean", "median", "trimmed:0.2", "geometric", "krum:1", "multikrum:1", "clip:3", "centered:3"]


def combined(rule, rows, weights=None):
    matrix = torch.tensor(rows, dtype=torch.float64)
    shares = torch.tensor(weights or [1 / len(rows)] * len(rows), dtype=torch.float64)
    means, _ = COMBINE.make(rule)({"w": matrix}, shares, {}, np.random.default_rng(0))
    return means["w"].tolist()


def test_by_hand():
    rows = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [100.0, -5.0], [0.0, 40.0]]
    assert combined("median", rows) == [2.0, 20.0]
    assert combined("trimmed:0.2", rows) == [2.0, 20.0]
    skew = [[0.0], [1.0], [2.0], [6.0], [100.0]]  # b = 0 would be 21.8, b = 1 is 3, b = 2 would be the median, 2
    assert combined("trimmed:0.2", skew) == combined("trimmed:0.39", skew) == [3.0]
    assert combined("trimmed:0.4", skew) == [2.0]
    assert combined("trimmed:0.19", skew) == [21.8]
    assert combined("mean", rows[:2], [0.25, 0.75]) == [1.75, 17.5]


def test_the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle():
    assert combined("median", [[1.0], [2.0], [4.0], [100.0]]) == [3.0]  # torch.median would say 2


@pytest.mark.parametrize("rule", RULES)
def test_equal_clients_give_that_vector(rule):
    assert combined(rule, [[1.5, -2.0]] * 5) == pytest.approx([1.5, -2.0])
    if "krum" not in rule:  # which needs three
        assert combined(rule, [[1.5, -2.0]]) == [1.5, -2.0]


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_clients_changes_nothing(rule):
    rows = np.random.default_rng(0).standard_normal((7, 5)).tolist()
    assert combined(rule, rows) == pytest.approx(combined(rule, rows[::-1]), rel=1e-12)


def test_nothing_trimmed_is_the_uniform_mean():
    rows = np.random.default_rng(0).standard_normal((7, 5)).tolist()
    assert combined("trimmed:0", rows) == pytest.approx(combined("mean", rows), rel=1e-12)


@pytest.mark.parametrize("lies", [(1e30, -1e30), (1e30, 1e30), (-1e30, -1e30)])
@pytest.mark.parametrize("rule", ["median", "trimmed:0.3", "krum:2", "multikrum:2"])
def test_outliers_stay_outside_the_honest_hull(rule, lies):
    honest = np.random.default_rng(0).standard_normal((5, 4))
    rows = [*honest.tolist(), *([lie] * 4 for lie in lies)]  # in a mean, two that are opposite would hide each other
    result = np.array(combined(rule, rows))
    assert (honest.min(0) <= result).all()
    assert (result <= honest.max(0)).all()
