"""Server optimizers: two or three rounds by hand, and the identities of Reddi et al.'s rules."""

import math

import pytest
import torch

from fedtrip.families import SERVER_OPTIMIZER


def course(rule, deltas):
    """w after each round in which the clients' mean moves by these differences, from w = 0."""
    optimizer = SERVER_OPTIMIZER.make(rule)
    w = torch.zeros(len(deltas[0]), dtype=torch.float64)
    state, seen = optimizer.start(w), []
    for delta in deltas:
        w, state = optimizer(w, w + torch.tensor(delta, dtype=torch.float64), state)
        seen.append(w.tolist())
    return seen


def test_momentum_three_rounds():
    assert [w[0] for w in course("momentum", [[1.0]] * 3)] == pytest.approx([1.0, 2.9, 5.61])  # moves 1, 1.9, 2.71


def test_momentum_without_memory_takes_the_proposal():
    assert course({"name": "momentum", "beta": 0.0}, [[1.0], [2.0]]) == [[1.0], [3.0]]
    assert course("none", [[1.0], [2.0]]) == [[1.0], [3.0]]


def by_hand(second_moment, beta1, deltas, lr=0.01, tau=1e-3):
    w, m, v, seen = 0.0, 0.0, tau**2, []
    for delta in deltas:
        m = beta1 * m + (1 - beta1) * delta
        v = second_moment(v, delta**2)
        w += lr * m / (math.sqrt(v) + tau)
        seen.append(w)
    return seen


@pytest.mark.parametrize(
    ("rule", "second_moment", "beta1"),
    [
        ("adam", lambda v, s: 0.99 * v + 0.01 * s, 0.9),
        ("yogi", lambda v, s: v - 0.01 * s * math.copysign(v != s, v - s), 0.9),
        ("adagrad", lambda v, s: v + s, 0.0),
    ],
)
def test_adaptive_rules_by_hand(rule, second_moment, beta1):
    deltas = [0.5, -0.25, 0.125]
    assert [w[0] for w in course(rule, [[d, 0.0] for d in deltas])] == pytest.approx(
        by_hand(second_moment, beta1, deltas), rel=1e-12
    )


@pytest.mark.parametrize("rule", ["adam", "yogi", "adagrad", "momentum"])
def test_a_coordinate_that_no_client_moves_stays(rule):
    assert all(w[1] == 0.0 for w in course(rule, [[0.5, 0.0]] * 4))


@pytest.mark.parametrize("rule", ["adam", "yogi"])
def test_a_frozen_second_moment_is_plain_averaging(rule):
    almost = {"name": rule, "beta1": 0.0, "beta2": 1 - 1e-15, "lr": 2e-3, "tau": 1e-3}
    assert course(almost, [[0.5], [-0.25]]) == [pytest.approx([0.5], rel=1e-6), pytest.approx([0.25], rel=1e-6)]


def test_yogis_sign_is_zero_where_the_moments_agree():
    optimizer = SERVER_OPTIMIZER.make("yogi")
    v = torch.tensor([0.25], dtype=torch.float64)
    assert optimizer.second_moment(v, v.clone()).tolist() == [0.25]
