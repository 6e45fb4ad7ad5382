"""Uniform numbers, permutations, choices and variates of our own: by hand from raw bits, by distribution, by bits."""

import math
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

from fedtrip.fixed_math import log
from fedtrip.randomness import choice, exponentials, gammas, normals, permutation, stream, uniforms

TOO_RARE = 1e-4
"""A p-value that a right function has with a fixed seed once in ten thousand tests."""


class RawBits:
    """A generator that gives the raw numbers it is told, one after another."""

    def __init__(self, *numbers):
        self._numbers = list(numbers)
        self.bit_generator = self

    def random_raw(self, size=None):
        if size is None:
            return self._numbers.pop(0)
        taken, self._numbers = self._numbers[:size], self._numbers[size:]
        return np.array(taken, dtype=np.uint64)


def fresh(key=0):
    return stream(0, "test of draws", key)


# ---- by hand


def test_uniforms_are_the_leading_53_bits():
    rng = RawBits(0, 2**11 - 1, 2**11, 2**63, 2**64 - 1)
    assert uniforms(rng, 5).tolist() == [0.0, 0.0, 2.0**-53, 0.5, 1 - 2.0**-53]


def test_exponentials_are_minus_the_logarithm_of_numbers_between_0_and_1():
    found = exponentials(RawBits(0, 2**63, 2**64 - 1), 3)
    assert found.tolist() == [-log(2.0**-53), -log(0.5 + 2.0**-53), -log(1 - 2.0**-53)]
    assert found == pytest.approx([53 * math.log(2), math.log(2), 2.0**-53], rel=1e-15)
    assert 0 < found.min() < found.max() < 37


def test_normals_by_hand():
    """√(−2 ln u)·cos(2πv): all u first, then all v."""
    half, quarter = 2**63, 2**62
    found = normals(RawBits(half, half, half, 0, half, quarter), 3)
    length = math.sqrt(2 * math.log(2))
    assert found == pytest.approx([length, -length, 0.0], abs=1e-12)


def test_a_permutation_is_the_order_of_the_random_bits():
    """Four numbers have two bits, which are not random; ties go to the lower number."""
    assert permutation(RawBits(3 << 60, 1 << 60, 2 << 60, 0), 4).tolist() == [3, 1, 2, 0]
    assert permutation(RawBits(7, 6, 5, 4), 4).tolist() == [0, 1, 2, 3]
    assert permutation(RawBits(8, 7, 6, 5), 4).tolist() == [1, 2, 3, 0]
    assert permutation(RawBits(2**64 - 1, 2**64 - 1, 0), 3).tolist() == [2, 0, 1]


def test_permutations_of_nothing_and_of_one():
    assert permutation(fresh(), 0).tolist() == []
    assert permutation(fresh(), 1).tolist() == [0]
    assert permutation(fresh(), 5).dtype == np.int64


def test_a_choice_by_hand():
    """Two of four: a number from 0 to 2, then one from 0 to 3, or 3 if that is taken."""
    third, half = 2**64 // 3 + 1, 2**63
    assert choice(RawBits(third, half), 4, 2) == [1, 2]
    assert choice(RawBits(2 * third, half), 4, 2) == [2, 3]  # 2, and 2 again
    assert choice(RawBits(5, 0), 4, 2) == [0, 3]  # 0, and 0 again


def test_a_raw_number_that_would_be_one_too_many_is_drawn_again():
    """2⁶⁴ = 3·k + 1, and 0 is the raw number that makes the first of three more likely than the others."""
    assert choice(RawBits(0, 2**63), 3, 1) == [1]
    assert choice(RawBits(2**63), 2, 1) == [1]
    assert choice(RawBits(0), 2, 1) == [0]  # 2 divides 2⁶⁴: none is left out


@pytest.mark.parametrize(("size", "count"), [(4, 0), (4, 4), (0, 0), (1, 1)])
def test_none_or_all_can_be_chosen(size, count):
    assert choice(fresh(), size, count) == list(range(count))


@pytest.mark.parametrize(("size", "count"), [(4, 5), (4, -1)])
def test_more_than_there_are_cannot_be_chosen(size, count):
    with pytest.raises(ValueError, match=f"{count} of 4 numbers cannot be chosen"):
        choice(fresh(), size, count)


def test_a_gamma_variate_that_is_refused_is_drawn_again():
    """Shape 4/3 has d = 1: x = √(2 ln 2)·cos(2πv) = −1.177 and v = (1 + x/3)³; kept while ln u is below its limit."""
    half, last = 2**63, 2**64 - 1
    v = (1 - math.sqrt(2 * math.log(2)) / 3) ** 3
    limit = math.log(2) + 1 - v + math.log(v)
    assert math.log(0.5) < limit < -1e-3
    assert gammas(RawBits(half, half, half), 4 / 3, 1) == pytest.approx([v], rel=1e-12)
    again = gammas(RawBits(half, half, last, half, 2**62, half), 4 / 3, 1)  # u near 1, then x = 0 and v = 1
    assert again == pytest.approx([1.0], rel=1e-12)


def test_a_gamma_shape_below_1_is_refused():
    with pytest.raises(ValueError, match=r"shape 0\.5 is below 1"):
        gammas(fresh(), 0.5, 3)


# ---- by distribution


DISTRIBUTIONS = {
    "uniforms": (uniforms, stats.uniform()),
    "exponentials": (exponentials, stats.expon()),
    "normals": (normals, stats.norm()),
    **{
        f"gammas of {shape}": (lambda rng, size, shape=shape: gammas(rng, shape, size), stats.gamma(shape))
        for shape in (1.0, 1.1, 1.5, 6.0, 1000.0)
    },
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_variates_have_their_distribution(name):
    draw, distribution = DISTRIBUTIONS[name]
    drawn = draw(fresh(), 100_000)
    assert drawn.shape == (100_000,)
    assert stats.kstest(drawn, distribution.cdf).pvalue > TOO_RARE
    assert drawn.mean() == pytest.approx(distribution.mean(), abs=4 * distribution.std() / math.sqrt(100_000))
    assert drawn.var() == pytest.approx(distribution.var(), rel=0.04)


def test_neighbouring_variates_are_independent():
    for draw, _ in DISTRIBUTIONS.values():
        drawn = draw(fresh(), 20_000)
        assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 4 / math.sqrt(20_000)


def test_all_permutations_are_equally_likely():
    rng = fresh()
    seen = Counter(tuple(permutation(rng, 4).tolist()) for _ in range(12_000))
    assert set(seen) == set(permutations(range(4)))
    assert stats.chisquare(list(seen.values())).pvalue > TOO_RARE


@pytest.mark.parametrize("size", [2, 17, 600, 65_536, 65_537])
def test_a_permutation_holds_every_number_once_and_each_place_is_as_likely(size):
    order = permutation(fresh(), size)
    assert np.array_equal(np.sort(order), np.arange(size))
    if size > 500:
        assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 4 / math.sqrt(size)


@pytest.mark.parametrize(("size", "count"), [(5, 1), (5, 2), (5, 4), (6, 3)])
def test_all_sets_are_equally_likely(size, count):
    rng = fresh()
    seen = Counter(tuple(choice(rng, size, count)) for _ in range(6000))
    assert set(seen) == set(combinations(range(size), count))
    assert stats.chisquare(list(seen.values())).pvalue > TOO_RARE


def test_a_choice_of_a_million_reaches_all_of_it():
    chosen = choice(fresh(), 1_000_000, 2000)
    assert chosen == sorted(set(chosen))
    assert stats.kstest(np.array(chosen) / 1e6, stats.uniform().cdf).pvalue > TOO_RARE


# ---- by bits


def test_the_streams_are_these():
    """Whoever changes one of these numbers changes the bits of every run."""
    assert uniforms(fresh(), 3).tolist() == [0.48598704272268156, 0.27191513863194416, 0.07171256171420282]
    assert exponentials(fresh(), 3).tolist() == [0.7215733165014968, 1.3022652516889808, 2.6350893484764764]
    assert normals(fresh(), 3).tolist() == [0.1032452125320617, 0.8419349529632354, -2.178429316666774]
    assert gammas(fresh(), 1.5, 3).tolist() == [1.281775170554042, 2.33280954798642, 0.041064264325175445]
    assert permutation(fresh(), 10).tolist() == [7, 2, 6, 4, 8, 1, 5, 0, 3, 9]
    assert choice(fresh(), 100, 5) == [7, 16, 26, 46, 75]
