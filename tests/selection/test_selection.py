"""Who takes part: each rule by its distribution and by hand, and that a round's choice is its own."""

import time
from collections import Counter

import numpy as np
import pytest

from fedtrip.families import SELECT
from fedtrip.randomness import stream


def pick(rule, seed=0, clients=10, per_round=4, samples_of=lambda _client: 1):
    return SELECT.make(rule)(stream(seed, "selection", 1), 1, clients, per_round, samples_of)


@pytest.mark.parametrize("rule", ["uniform", "weighted", "available:0.5", "available:0.01"])
def test_clients_are_different_ascending_and_at_most_per_round(rule):
    for seed in range(200):
        chosen = pick(rule, seed)
        assert list(chosen) == sorted(set(chosen))
        assert 1 <= len(chosen) <= 4
        assert all(0 <= client < 10 for client in chosen)
        assert chosen == pick(rule, seed)


def test_every_pair_of_clients_is_chosen_equally_often_by_the_uniform_rule():
    pairs = Counter(pick("uniform", seed, 5, 2) for seed in range(4000))
    assert len(pairs) == 10
    assert all(count / 4000 == pytest.approx(0.1, abs=0.02) for count in pairs.values())


def test_a_few_of_a_million_clients_are_chosen_at_once():
    start = time.process_time()
    chosen = pick("uniform", 0, 1_000_000, 100)
    assert len(set(chosen)) == 100
    assert max(chosen) > 900_000
    assert time.process_time() - start < 0.05


def test_weighted_follows_the_numbers_of_samples():
    sizes = [1, 1, 2, 4]
    first = Counter(pick("weighted", seed, 4, 1, sizes.__getitem__)[0] for seed in range(4000))
    for client, size in enumerate(sizes):
        assert first[client] / 4000 == pytest.approx(size / 8, abs=0.03)


def test_weighted_never_takes_a_client_without_samples_while_others_are_left():
    assert all(pick("weighted", seed, 3, 2, [5, 0, 5].__getitem__) == (0, 2) for seed in range(50))


def test_available_takes_all_that_are_there_if_they_are_few():
    sizes = [len(pick("available:0.3", seed)) for seed in range(2000)]
    # K of those there, at least one: E[min(4, max(1, Binomial(10, 0.3)))]
    from scipy.stats import binom

    expected = sum(binom.pmf(n, 10, 0.3) * min(4, max(1, n)) for n in range(11))
    assert np.mean(sizes) == pytest.approx(expected, abs=0.12)


def test_available_with_certainty_is_a_uniform_choice_of_all():
    seen = Counter(client for seed in range(2000) for client in pick("available:1", seed))
    assert all(count / 2000 == pytest.approx(0.4, abs=0.05) for count in seen.values())
    assert len(seen) == 10


def test_poisson_takes_each_client_by_itself():
    """q = 4/10: the number of clients is binomial, its mean 4 and its variance 2.4; pairs are independent."""
    chosen = [pick("poisson", seed) for seed in range(4000)]
    counts = np.array([len(one) for one in chosen])
    assert counts.mean() == pytest.approx(4, abs=4 * (2.4 / 4000) ** 0.5)
    assert counts.var() == pytest.approx(2.4, rel=0.1)
    assert min(counts) == 0
    assert max(counts) > 7
    both = np.mean([{2, 7} <= set(one) for one in chosen])
    assert both == pytest.approx(0.16, abs=0.025)
    assert all(list(one) == sorted(set(one)) for one in chosen)
    assert pick("poisson", per_round=10) == tuple(range(10))
