"""The comparison's statistics against hand numbers and scipy."""

import math
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedtrip.statistics import estimate, holm, mean_of_groups, paired_ratio


def test_mean_and_deviation_by_hand():
    found = estimate([2.0, 4.0, 9.0])
    assert found.mean == 5.0
    assert found.std == pytest.approx(math.sqrt((9 + 1 + 16) / 2))
    assert found.values == (2.0, 4.0, 9.0)
    assert estimate([7.0]).std is None


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20))
def test_the_deviation_is_that_of_a_sample(values):
    assert estimate(values).std == pytest.approx(stdev(values), rel=1e-9, abs=1e-9)


def test_a_speed_up_is_the_geometric_mean_of_the_pairs_with_students_interval():
    baseline, other = [30.0, 42.0, 25.0, 38.0], [20.0, 30.0, 25.0, 19.0]
    ratio = paired_ratio(baseline, other, [False] * 4, [False] * 4)
    logs = [math.log(b / o) for b, o in zip(baseline, other, strict=True)]
    assert ratio.mean == pytest.approx((1.5 * 1.4 * 1.0 * 2.0) ** 0.25)
    low, high = stats.t.interval(0.95, 3, loc=sum(logs) / 4, scale=stats.sem(logs))
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert ratio.bound == ""
    paired = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(paired.low), math.exp(paired.high)))


def test_the_pairing_matters():
    """Seeds that are hard for both methods do not widen the interval."""
    together = paired_ratio([10.0, 20.0, 40.0], [5.0, 10.0, 20.0], [False] * 3, [False] * 3)
    assert (together.mean, together.low, together.high) == pytest.approx((2.0, 2.0, 2.0))
    crossed = paired_ratio([10.0, 20.0, 40.0], [20.0, 10.0, 5.0], [False] * 3, [False] * 3)
    assert crossed.low < 1 < crossed.high


def test_one_trial_has_no_interval():
    ratio = paired_ratio([30.0], [20.0], [False], [False])
    assert (ratio.mean, ratio.low, ratio.high) == (pytest.approx(1.5), None, None)


@pytest.mark.parametrize(
    ("baseline_censored", "censored", "bound"),
    [((False, False), (False, False), ""), ((True, False), (False, False), ">"), ((False, False), (False, True), "<"),
     ((True, False), (False, True), "?")],
)  # fmt: skip
def test_runs_that_never_got_there_make_it_a_bound(baseline_censored, censored, bound):
    assert paired_ratio([10.0, 20.0], [10.0, 10.0], baseline_censored, censored).bound == bound


def test_where_neither_side_reached_the_target_nothing_was_measured():
    assert paired_ratio([20.0, 20.0], [20.0, 20.0], [True, True], [True, True]) is None
    assert paired_ratio([20.0], [20.0], [True], [True]) is None


def test_pairs_in_which_neither_side_got_there_are_left_out_and_counted():
    """They say nothing; counted as 1 they would pull the mean towards 1 and make the interval narrower."""
    ratio = paired_ratio([20.0, 12.0, 20.0, 16.0], [20.0, 6.0, 20.0, 8.0], [True, False, True, False],
                         [True, False, True, False])  # fmt: skip
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert (ratio.bound, ratio.left_out) == ("", 2)
    bounded = paired_ratio([20.0, 20.0], [20.0, 10.0], [True, True], [True, False])
    assert (bounded.mean, bounded.low, bounded.bound, bounded.left_out) == (pytest.approx(2.0), None, ">", 1)
    assert paired_ratio([30.0], [20.0], [False], [False]).left_out == 0


def test_the_mean_of_groups_with_the_same_seeds_is_students_interval_of_the_seeds_means():
    groups = [{0: 0.8, 1: 0.9, 2: 0.5}, {0: 1.1, 1: 1.0, 2: 0.7}]
    found = mean_of_groups(groups)
    of_seeds = [(0.8 + 1.1) / 2, (0.9 + 1.0) / 2, (0.5 + 0.7) / 2]
    low, high = stats.t.interval(0.95, 2, loc=sum(of_seeds) / 3, scale=stats.sem(of_seeds))
    assert (found.mean, found.low, found.high) == pytest.approx((sum(of_seeds) / 3, low, high))
    assert found.p == pytest.approx(stats.ttest_1samp(of_seeds, 1.0).pvalue)


def test_every_seed_of_every_group_counts_in_its_group():
    """By hand: means 0.7 and 0.5; variances of a seed 0.02 (n = 4, s² = 0.08/3) and 0 (n = 2)."""
    found = mean_of_groups([{0: 0.5, 1: 0.9, 2: 0.7, 3: 0.7}, {0: 0.5, 1: 0.5}])
    error = math.sqrt(0.08 / 3 / 4) / 2
    half = stats.t.ppf(0.975, 3) * error
    assert (found.mean, found.low, found.high) == pytest.approx((0.6, 0.6 - half, 0.6 + half))


def test_seeds_that_two_groups_share_are_not_independent():
    """Rising together widens the interval, one against the other narrows it."""
    together = mean_of_groups([{0: 0.5, 1: 0.9, 2: 0.7}, {0: 0.5, 1: 0.9, 2: 0.7}])
    against = mean_of_groups([{0: 0.5, 1: 0.9, 2: 0.7}, {0: 0.9, 1: 0.5, 2: 0.7}])
    assert together.high - together.low > 0.5
    assert against.high - against.low == pytest.approx(0, abs=1e-12)


def test_few_seeds_in_a_group_that_spreads_leave_few_degrees_of_freedom():
    found = mean_of_groups([{0: 0.2, 1: 1.2}, dict.fromkeys(range(10), 0.7)])
    half = stats.t.ppf(0.975, 1) * math.sqrt(0.5 / 2) / 2
    assert (found.low, found.high) == pytest.approx((0.7 - half, 0.7 + half))


def test_holms_correction_by_hand():
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04; never below the one before: 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_the_p_value_of_a_ratio_is_that_of_the_paired_t_test_on_the_logarithms():
    baseline, other = [30.0, 42.0, 25.0, 38.0], [20.0, 30.0, 25.0, 19.0]
    expected = stats.ttest_rel([math.log(b) for b in baseline], [math.log(o) for o in other]).pvalue
    assert paired_ratio(baseline, other, [False] * 4, [False] * 4).p == pytest.approx(expected)
    assert paired_ratio([9.0, 8.0], [9.0, 8.0], [False] * 2, [False] * 2).p == 1.0, "no difference anywhere"
    assert paired_ratio([9.0, 8.0], [18.0, 16.0], [False] * 2, [False] * 2).p is None, "no spread to judge by"
