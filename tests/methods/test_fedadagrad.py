"""FedAdagrad: m ← β₁m + (1−β₁)Δ̄; v ← v + Δ̄²; w ← w + η_g·m/(√v + τ); v starts at τ², β₁ = 0."""

import math
from itertools import pairwise

import pytest
import torch
from tests.reference.naive import assert_follows
from tests.reference.quadratic import play, w_of
from tests.reference.server_rules import (
    assert_clients_take_plain_steps,
    assert_costs_a_client_nothing,
    assert_is_fedavg_with,
    course,
)
from tests.reference.setting import Setting, normalised
from tests.reference.watching import watched

from fedtrip.errors import UserError
from fedtrip.methods.fedadagrad import FedAdagrad
from fedtrip.methods.interface import make_method
from fedtrip.server_optimizers.adagrad import Adagrad


def test_two_rounds_by_hand():
    # η = ½ and one step: Δ_k = (b − w)/2. τ = 3, so v starts at 9; η_g = 2.
    # Round 1, first coordinate: Δ = 10 and 2, with n = 1 and 3: Δ̄ = 16/4 = 4; v = 9 + 16 = 25; w = 2·4/(5 + 3) = 1.
    # Second: both −4: v = 25, w = −1. Round 2, client 2: (25 − 1)/2 = 12: v = 25 + 144 = 169, w = 1 + 2·12/(13 + 3) =
    # 2.5; the second stands at its b = −1: Δ̄ = 0, and nothing moves.
    history = play(
        FedAdagrad(lr=2.0, tau=3.0),
        b=[[20.0, -8.0], [4.0, -8.0], [25.0, -1.0]], samples=[1, 3, 2], chosen=[(0, 1), (2,)], steps=1,
        start=(0.0, 0.0),
    )  # fmt: skip
    assert w_of(history) == [[1.0, -1.0], [2.5, -1.0]]
    assert [server.state["v"].tolist() for server, _ in history] == [[25.0, 25.0], [169.0, 25.0]]


def test_a_mean_may_be_kept():
    # β₁ = ½, τ = 3: round 1 m = 2, v = 25, w = 2·2/8 = 0.5; round 2 Δ̄ = 12: m = 1 + 6 = 7, v = 169, w = 0.5 + 14/16.
    first, second = course(FedAdagrad(lr=2.0, tau=3.0, beta1=0.5), [[4.0], [12.0]])
    assert (float(first.w), float(second.w)) == (0.5, 1.375)


def test_v_never_falls():
    _, _, history = watched(Setting(rounds=5), "fedadagrad")
    states = [torch.full_like(history[0][0].state["v"], 1e-6)] + [server.state["v"] for server, _ in history]
    for before, after in pairwise(states):
        assert bool((after >= before).all())
        assert bool((after > before).any())


def test_what_no_client_moves_stays():
    assert all(server.w.tolist()[1] == 0.0 for server in course(FedAdagrad(), [[0.5, 0.0]] * 4))


def test_it_is_fedavg_with_the_server_optimizer_to_the_bit():
    assert_is_fedavg_with("adagrad", "fedadagrad")
    assert_is_fedavg_with("adagrad", "fedadagrad", lr=0.1, beta1=0.5, tau=0.01)


def test_the_clients_take_plain_steps():
    assert_clients_take_plain_steps(FedAdagrad())
    assert (FedAdagrad().lr, FedAdagrad().beta1, FedAdagrad().tau) == (0.01, 0.0, 1e-3)


@pytest.mark.parametrize("options", [{"tau": 0.01}, {"lr": 0.1, "tau": 0.1, "beta1": 0.5}], ids=str)
def test_runs_like_the_reference(options):
    assert_follows(Setting(weight_decay=0.02), "fedadagrad", **options)


def test_batch_norm_is_averaged_and_no_part_of_v():
    assert_follows(normalised(rounds=4), "fedadagrad", lr=0.05, tau=0.1)


def test_its_costs():
    assert_costs_a_client_nothing("fedadagrad", {"m", "v"})


@pytest.mark.parametrize(("option", "value"), [("beta1", 1), ("tau", 0), ("lr", 0), ("lr", math.nan)])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedadagrad': option '{option}' is {value}"):
        make_method("fedadagrad", {option: value}, model="cnn", dataset="mnist")


def test_a_second_moment_that_forgets_is_caught(monkeypatch):
    monkeypatch.setattr(Adagrad, "second_moment", lambda _self, v, square: 0.99 * v + 0.01 * square)
    for test in (test_two_rounds_by_hand, test_v_never_falls):
        with pytest.raises(AssertionError):
            test()
