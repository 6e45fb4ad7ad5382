"""Draws depend on (seed, purpose, keys) and on nothing else."""

from itertools import combinations

import numpy as np
import pytest

from fedtrip.errors import UserError
from fedtrip.randomness import stream, torch_seed

DIFFERENT = [
    (0, "a"),
    (1, "a"),
    (0, "b"),
    (0, "a", 0),  # SeedSequence alone would pad (0,) and (0, 0) to the same entropy
    (0, "a", 0, 0),
    (0, "a", 1, 0),
    (0, "a", 0, 1),
    (1, "a", 0),
    (0, "0"),
    (2**32, "a"),
    (0, "a", 2**32),
    (10**6000, "a"),  # beyond the length limit of decimal text in Python
]


def test_same_arguments_give_the_same_draws_whatever_was_drawn_between():
    first = stream(7, "batches", 3, 11).random(5)
    stream(7, "batches", 3, 12).random(100)
    np.random.random(3)
    assert np.array_equal(stream(7, "batches", 3, 11).random(5), first)


def test_numpy_integers_are_the_same_keys():
    assert torch_seed(np.int64(7), "batches", np.int32(3)) == torch_seed(7, "batches", 3)


@pytest.mark.parametrize(("one", "other"), list(combinations(DIFFERENT, 2)))
def test_different_arguments_give_different_draws(one, other):
    assert not np.array_equal(stream(*one).random(4), stream(*other).random(4))
    assert torch_seed(*one) != torch_seed(*other)


def test_streams_of_neighbouring_keys_are_uncorrelated():
    draws = np.stack([stream(0, "clients", key).standard_normal(2000) for key in range(20)])
    correlations = np.corrcoef(draws)[np.triu_indices(20, k=1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(2000)


def test_torch_seeds_fill_63_bits():
    seeds = [torch_seed(seed, "model") for seed in range(200)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62


def test_a_negative_seed_is_refused():
    with pytest.raises(UserError, match=r"seed -1 .*accepted: integers from 0"):
        stream(-1, "model")


def test_a_seed_that_is_no_integer_is_refused():
    with pytest.raises(TypeError):
        stream(1.5, "model")  # type: ignore[arg-type]
