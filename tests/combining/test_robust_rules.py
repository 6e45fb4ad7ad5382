"""The rules that withstand liars: by hand, against slow references, their limits, what they do with other vectors."""

import itertools
import math

import numpy as np
import pytest
import torch
from tests.combining.test_combining import combined
from tests.reference import robust

from fedtrip.errors import UserError
from fedtrip.families import COMBINE

LINE = [[0.0], [1.0], [5.0], [8.0], [11.0]]
"""Squared distances of client 1: 1, 16, 49, 100; of 3: 64, 49, 9, 9. With f = 1 a score has |S|−f−2 = 2 of them:
0: 1 + 25 = 26; 1: 1 + 16 = 17; 2: 9 + 16 = 25; 3: 9 + 9 = 18; 4: 9 + 36 = 45."""
ROUND = ["geometric", "krum", "multikrum", "clip", "centered", "trimmed", "median", "mean"]


def test_krum_by_hand():
    assert combined("krum:1", LINE) == [1.0]  # squared twice it would be client 3, with one neighbour more client 2
    assert combined("krum:1", [[0.0], [1.0], [6.0], [9.0], [13.0]]) == [9.0]  # 9 + 16 < 1 + 25, though 3 + 4 > 1 + 5
    assert combined("krum:1", [[0.0], [1.0], [3.0], [4.0], [100.0]]) == [1.0]  # 1 and 2 both have 5: the first


def test_multikrum_by_hand():
    weights = [0.1, 0.2, 0.2, 0.2, 0.3]  # mean nothing to it
    assert combined("multikrum:1:2", LINE, weights) == [4.5]  # clients 1 and 3
    assert combined("multikrum:1:1", LINE, weights) == [1.0]
    assert combined("multikrum:1", LINE, weights) == [3.5]  # all but client 4


def test_the_geometric_median_by_hand():
    # z = 1: distances 1, 1, 2; z = (3/2)/(1 + 1 + 1/2) = 0.6: distances 0.6, 0.6, 2.4; z = 3/(4 + 4 + 1)
    rows = [[0.0], [0.0], [3.0]]
    assert combined("geometric:1", rows) == pytest.approx([0.6], rel=1e-14)
    assert combined("geometric:2", rows) == pytest.approx([1 / 3], rel=1e-14)
    # z = 1: distances 1, 3; z = (4·0.25/3)/(0.75 + 0.25/3) = 0.4
    assert combined("geometric:1", [[0.0], [4.0]], [0.75, 0.25]) == pytest.approx([0.4], rel=1e-14)
    # nearer than ν a client weighs no more: β = 1/2, 1/2, 1/2, so that it stays the mean
    assert combined({"name": "geometric", "nu": 2.0}, rows) == [1.0]


def test_the_geometric_median_stops_where_it_is_as_good_as_there():
    rows = np.random.default_rng(1).standard_normal((9, 6))
    weights = np.arange(1, 10) / 45
    z = np.array(combined("geometric:1000", rows.tolist(), weights.tolist()))
    apart = z - rows
    pull = (weights / np.linalg.norm(apart, axis=1)) @ apart  # the gradient of Σ p_k‖z − Δ_k‖
    assert np.linalg.norm(pull) < 2e-3
    assert np.linalg.norm(pull) < np.linalg.norm((weights / np.linalg.norm(rows, axis=1)) @ rows) / 20


def test_a_liar_pulls_the_geometric_median_less_with_every_step():
    """Four steps do not make it vanish, nor do fifty, because they end: the docstring's quarter and ten-millionth."""
    rows = [[0.0]] * 4 + [[1e30]]
    pulls = [combined(f"geometric:{steps}", rows)[0] for steps in (1, 2, 3, 4, 50)]
    assert all(0.2 < later / before < 0.3 for before, later in itertools.pairwise(pulls[:4]))
    assert 1e22 < pulls[4] < 1e23


def test_clipping_by_hand():
    rows = [[3.0, 4.0], [0.0, 1.0]]  # norms 5 and 1
    assert combined("clip:2.5", rows) == [0.75, 1.5]
    assert combined("clip:2.5", rows, [0.25, 0.75]) == [0.375, 1.25]
    assert combined("clip", [[0.0, 0.0], [0.0, 4.0]]) == [0.0, 0.5]  # c = 1; a client that has not moved


def centre(rule, *rounds):
    state, found = {}, []
    for rows in rounds:
        matrix = torch.tensor(rows, dtype=torch.float64)
        shares = torch.full((len(rows),), 1 / len(rows), dtype=torch.float64)
        means, state = COMBINE.make(rule)({"w": matrix}, shares, state, np.random.default_rng(0))
        found.append(means["w"].tolist())
    return found


def test_centered_clipping_by_hand():
    # v = 0: [3, 4] → [0.6, 0.8], [0, 0.5] as it is; then Δ − v = [0, 1] and [0, 4] → [0, 1]
    first, second = centre("centered:1", [[3.0, 4.0], [0.0, 0.5]], [[0.3, 1.65], [0.3, 4.65]])
    assert first == pytest.approx([0.3, 0.65], rel=1e-14)
    assert second == pytest.approx([0.3, 1.65], rel=1e-14)
    # v = (0 + 1)/2; then (−0.5 + 1)/2 more
    assert centre("centered:1:2", [[0.0], [4.0]]) == [[0.75]]


@pytest.mark.parametrize("name", ROUND)
def test_against_the_slow_reference(name):
    for seed in range(5):
        random = np.random.default_rng(seed)
        rows, weights = random.standard_normal((8, 33)) * random.uniform(0.02, 0.6, (8, 1)), random.uniform(0.5, 2, 8)
        weights /= weights.sum()
        assert combined(name, rows.tolist(), weights.tolist()) == pytest.approx(
            getattr(robust, name)(rows, weights), rel=1e-10, abs=1e-12
        )


def test_the_options_against_the_slow_reference():
    rows = np.random.default_rng(3).standard_normal((9, 12))
    weights = np.arange(1, 10) / 45
    for rule, expected in (
        ("krum:3", robust.krum(rows, weights, f=3)),
        ("multikrum:2:4", robust.multikrum(rows, weights, f=2, m=4)),
        ("clip:2.2", robust.clip(rows, weights, c=2.2)),
        ("centered:2.2:5", robust.centered(rows, weights, c=2.2, iterations=5)),
        ("geometric:3", robust.geometric(rows, weights, iterations=3)),
    ):
        assert combined(rule, rows.tolist(), weights.tolist()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rule", ["multikrum:0:7", "multikrum:0", "clip:inf", "centered:inf", "trimmed:0"])
def test_with_nothing_to_fear_it_is_the_uniform_mean(rule):
    rows = np.random.default_rng(0).standard_normal((7, 5)).tolist()
    assert combined(rule, rows) == pytest.approx(combined("mean", rows), rel=1e-12)


@pytest.mark.parametrize("rule", ["clip:inf", "centered:inf", "geometric"])
def test_clients_weigh_as_the_method_says(rule):
    """Two equal clients of half the weight are one; of rules that ignore n_k that is not so."""
    rows = np.random.default_rng(0).standard_normal((4, 5)).tolist()
    together = combined(rule, rows, [0.4, 0.3, 0.2, 0.1])
    assert together == pytest.approx(combined(rule, [rows[0], *rows], [0.3, 0.1, 0.3, 0.2, 0.1]), rel=1e-12)
    assert together != pytest.approx(combined(rule, rows), rel=1e-3)


@pytest.mark.parametrize("rule", ["median", "trimmed:0.3", "krum:1", "multikrum:1"])
def test_a_client_cannot_claim_more_weight(rule):
    rows = np.random.default_rng(0).standard_normal((5, 5)).tolist()
    assert combined(rule, rows, [0.9, 0.025, 0.025, 0.025, 0.025]) == combined(rule, rows)


def several(rule, **matrices):
    rows = {name: torch.tensor(m, dtype=torch.float64) for name, m in matrices.items()}
    count = len(next(iter(rows.values())))
    shares = torch.full((count,), 1 / count, dtype=torch.float64)
    return {n: v.tolist() for n, v in COMBINE.make(rule)(rows, shares, {}, np.random.default_rng(0))[0].items()}


def test_krum_picks_clients_once_by_w():
    buffers = [[50.0], [7.0], [7.1], [7.2], [9.0]]  # alone they would pick client 2
    found = several("krum:1", buffers=buffers, w=LINE)
    assert found == {"buffers": [7.0], "w": [1.0]}
    assert several("krum:1", buffers=buffers) == {"buffers": [7.1]}  # an exchange without w
    assert several("multikrum:1:2", w=LINE, buffers=buffers)["buffers"] == pytest.approx([7.1])  # clients 1 and 3


@pytest.mark.parametrize("rule", ["clip:2.5", "centered:2.5"])
def test_every_vector_is_clipped_by_its_own_norm(rule):
    found = several(rule, w=[[1.0], [1.0]], buffers=[[3.0, 4.0], [0.0, 1.0]])
    assert found == {"w": [1.0], "buffers": [0.75, 1.5]}


def test_every_vector_has_its_own_geometric_median():
    found = several("geometric:1", w=[[0.0], [0.0], [3.0]], buffers=[[3.0], [0.0], [0.0]])
    assert found["w"] == found["buffers"] == pytest.approx([0.6])


@pytest.mark.parametrize("rule", ROUND)
def test_vectors_of_no_numbers_pass(rule):
    assert several(rule, w=[[]] * 5) == {"w": []}


@pytest.mark.parametrize(
    ("rule", "fewest"), [("krum:0", 3), ("krum:2", 7), ("multikrum:2", 7), ("multikrum:1:6", 7), ("median", 1)]
)
def test_too_few_clients_are_refused_by_name(rule, fewest):
    made = COMBINE.make(rule)
    made.check(fewest)
    assert made.fewest == fewest
    if fewest > 1:
        with pytest.raises(UserError, match=rf"per_round is {fewest - 1}, but combine '{rule}.*; accepted: per_round"):
            made.check(fewest - 1)
        with pytest.raises(ValueError, match="uploads, where Krum needs"):
            combined(rule.rpartition(":")[0] if rule.count(":") > 1 else rule, [[0.0]] * 2)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("krum:-1", "combine 'krum:-1': option 'f' is -1"),
        ("krum:1.5", "combine 'krum:1.5': option 'f' is"),
        ("multikrum:1:0", "combine 'multikrum:1:0': option 'm' is"),
        ("clip:0", "combine 'clip:0': option 'c' is"),
        ("clip:nan", "combine 'clip:nan': option 'c' is"),
        ("centered:1:6", "combine 'centered:1:6': option 'iterations' is"),
        ({"name": "centered", "iterations": 0}, "combine 'centered': option 'iterations' is"),
        ("geometric:0", "combine 'geometric:0': option 'iterations' is"),
        ({"name": "geometric", "nu": 0}, "combine 'geometric': option 'nu' is"),
        ({"name": "geometric", "nu": math.inf}, "combine 'geometric': option 'nu' is"),
    ],
)
def test_bad_options_are_refused_by_name(rule, told):
    with pytest.raises(UserError, match=told):
        COMBINE.make(rule)
