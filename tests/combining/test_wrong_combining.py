"""Wrong variants of the robust rules, as found in other code: the ordinary tests catch them."""

import pytest
from tests.combining import test_robust_rules

from fedtrip.combining import _krum, _rows, centered, clip, geometric, krum, multikrum
from fedtrip.combining._rows import clipped_mean, length, weighted_sum

TESTS = test_robust_rules
RIGHT_SCORE, RIGHT_RANKED = _krum.score, _krum.ranked
RIGHT_CENTERED, RIGHT_MEDIAN = centered.Centered.__call__, geometric.Geometric._median


def averaged(mean):
    """Multi-Krum with another end."""

    def call(self, differences, weights, state, _rng):
        picked = sorted(RIGHT_RANKED(differences["w"], self.f)[: self.m or len(weights) - self.f])
        return {name: mean(matrix[picked], weights[picked]) for name, matrix in differences.items()}, state

    return call


def by_every_name(self, differences, _weights, state, _rng):
    return {name: matrix[RIGHT_RANKED(matrix, self.f)[0]] for name, matrix in differences.items()}, state


def forgetful(self, differences, weights, _state, rng):
    return RIGHT_CENTERED(self, differences, weights, {}, rng)


def last_of_ties(rows, f):
    count = len(rows)
    order = RIGHT_RANKED(rows.flip(0), f)
    return [count - 1 - place for place in order]


VARIANTS = {
    "distances squared twice": (
        _krum, "score", lambda squares, f: RIGHT_SCORE([s * s for s in squares], f), TESTS.test_krum_by_hand,
    ),
    "distances not squared": (
        _krum, "score", lambda squares, f: RIGHT_SCORE([s**0.5 for s in squares], f), TESTS.test_krum_by_hand,
    ),
    "a neighbour too many": (_krum, "score", lambda squares, f: RIGHT_SCORE(squares, f - 1), TESTS.test_krum_by_hand),
    "itself a neighbour": (
        _krum, "score", lambda squares, f: RIGHT_SCORE([*squares, 0.0], f + 1), TESTS.test_krum_by_hand,
    ),
    "ties to the last": (krum, "ranked", last_of_ties, TESTS.test_krum_by_hand),
    "the sum of the m": (
        multikrum.MultiKrum, "__call__", averaged(lambda rows, _weights: rows.sum(0)), TESTS.test_multikrum_by_hand,
    ),
    "the m weighted by samples": (
        multikrum.MultiKrum, "__call__", averaged(lambda rows, weights: (weights @ rows) / weights.sum()),
        TESTS.test_multikrum_by_hand,
    ),
    "other clients for other names": (krum.Krum, "__call__", by_every_name, TESTS.test_krum_picks_clients_once_by_w),
    "Weiszfeld without weights": (
        geometric.Geometric, "_median",
        lambda self, rows, shares: RIGHT_MEDIAN(self, rows, [1 / len(shares)] * len(shares)),
        TESTS.test_the_geometric_median_by_hand,
    ),
    "squared distances in Weiszfeld": (
        geometric, "length", lambda row: length(row) ** 2, TESTS.test_the_geometric_median_by_hand,
    ),
    "no ν": (
        geometric.Geometric, "_median",
        lambda self, rows, shares: RIGHT_MEDIAN(geometric.Geometric(self.iterations, 1e-300), rows, shares),
        TESTS.test_the_geometric_median_by_hand,
    ),
    "short uploads made longer": (
        _rows, "shrinking", lambda row, c: c / (length(row) or 1.0), TESTS.test_clipping_by_hand,
    ),
    "each number clipped": (
        clip, "clipped_mean", lambda rows, shares, c: weighted_sum(rows.clamp(-c, c), shares),
        TESTS.test_clipping_by_hand,
    ),
    "clipped after the mean": (
        clip, "clipped_mean", lambda rows, shares, c: clipped_mean(weighted_sum(rows, shares)[None], [1.0], c),
        TESTS.test_clipping_by_hand,
    ),
    "uniform clipping": (
        clip, "clipped_mean", lambda rows, shares, c: clipped_mean(rows, [1 / len(shares)] * len(shares), c),
        TESTS.test_clipping_by_hand,
    ),
    "a centre that is forgotten": (
        centered.Centered, "__call__", forgetful, TESTS.test_centered_clipping_by_hand,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_caught(name, monkeypatch):
    owner, attribute, wrong, test = VARIANTS[name]
    test()  # the rule as it is passes
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        test()
