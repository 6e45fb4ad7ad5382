"""The benchmark's medians, intervals and verdicts by hand."""

import math

import pytest
from bench.intervals import Bar, Interval, ratios


def coverage(n, k):
    """How often the interval from the k-th smallest to the k-th largest of n values holds the median."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


@pytest.mark.parametrize(
    ("n", "k"),
    [(6, 1), (8, 1), (9, 2), (30, 10), (31, 10), (100, 40)],  # the tables of the sign test at 5 %, two-sided
)
def test_the_interval_is_the_narrowest_that_is_sure_enough(n, k):
    values = [float(value) for value in range(1, n + 1)]
    found = Interval.of(values[::-1])
    assert (found.low, found.high) == (k, n + 1 - k)
    assert found.median == (n + 1) / 2
    assert coverage(n, k) >= 0.95 > coverage(n, k + 1)


def test_few_values_are_all_in_the_interval():
    assert Interval.of([3.0, 1.0, 2.0]) == Interval(2.0, 1.0, 3.0)
    assert Interval.of([4.0]) == Interval(4.0, 4.0, 4.0)
    assert coverage(5, 1) < 0.95


@pytest.mark.parametrize(
    ("median", "low", "high", "at_least", "at_most"),
    [
        (2.0, 1.9, 2.1, "met", "met"),
        (2.1, 1.9, 2.2, "met", "within the interval"),
        (1.9, 1.8, 2.0, "within the interval", "met"),
        (1.9, 1.8, 1.99, "missed", "met"),
        (2.2, 2.01, 2.3, "met", "missed"),
    ],
)
def test_a_bar_is_missed_only_if_the_whole_interval_lies_beyond_it(median, low, high, at_least, at_most):
    found = Interval(median, low, high)
    assert Bar(2.0).verdict(found) == at_least
    assert Bar(2.0, is_most=True).verdict(found) == at_most


def test_ratios_are_made_turn_by_turn():
    assert ratios([6.0, 8.0], [2.0, 4.0]) == [3.0, 2.0]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])
