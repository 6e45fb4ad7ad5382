"""FedAvgM: u ← βu + (w − w̄); w ← w − η_g·u, with w̄ the mean of the uploads weighted by n_k."""

import math
from itertools import pairwise

import pytest
from tests.reference.naive import apart, assert_follows
from tests.reference.quadratic import play, w_of
from tests.reference.server_rules import (
    assert_clients_take_plain_steps,
    assert_costs_a_client_nothing,
    assert_is_fedavg_with,
    course,
)
from tests.reference.setting import Setting, normalised

from fedtrip.errors import UserError
from fedtrip.methods.fedavgm import FedAvgM
from fedtrip.methods.interface import make_method
from fedtrip.server_optimizers.momentum import Momentum


def test_two_rounds_by_hand():
    # β = η_g = ½, η = ½, K = 2: a client ends at w/4 + ¾b. Round 1: 3 and 6, w̄ = (3 + 18)/4 = 5.25; u = −5.25;
    # w = 2.625. Round 2: client 0 (b 4) ends at 3.65625, client 2 (b −4) at −2.34375; w̄ = −1.03125/3 = −0.34375;
    # u = −2.625 + 2.96875 = 0.34375; w = 2.625 − ½·0.34375 = 2.453125.
    history = play(FedAvgM(beta=0.5, lr=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert w_of(history) == [[2.625], [2.453125]]
    assert [server.state["u"].tolist() for server, _ in history] == [[-5.25], [0.34375]]


def test_rounds_that_agree_move_it_ever_further():
    # With β = 0.9 and Δ̄ = 1 each time it moves 1, then 0.9 + 1, then 0.81 + 0.9 + 1; in the end 1/(1 − β) = 10.
    places = [float(server.w) for server in course(FedAvgM(), [[1.0]] * 200)]
    moves = [b - a for a, b in pairwise([0.0, *places])]
    assert moves[:3] == pytest.approx([1.0, 1.9, 2.71], rel=1e-6)
    assert moves[-1] == pytest.approx(10.0, rel=1e-3)


def test_it_is_fedavg_with_the_server_optimizer_to_the_bit():
    assert_is_fedavg_with("momentum", "fedavgm")
    assert_is_fedavg_with("momentum", "fedavgm", beta=0.5, lr=0.7)


def test_without_momentum_it_is_fedavg_to_rounding():
    setting = Setting(weight_decay=0.01)
    assert apart(setting.run("fedavgm", beta=0.0).state, setting.run("fedavg").module) < 1e-6


@pytest.mark.parametrize(("rate", "beta"), [(1.0, 0.9), (0.5, 0.7)])
def test_it_is_slowmo_to_rounding_while_the_rate_is_constant(rate, beta):
    setting = Setting(local_epochs=2)
    slowmo = setting.run("slowmo", alpha=rate, beta=beta)
    assert apart(setting.run("fedavgm", lr=rate, beta=beta).state, slowmo.module) < 1e-5


def test_the_clients_take_plain_steps():
    assert_clients_take_plain_steps(FedAvgM())
    assert (FedAvgM().beta, FedAvgM().lr) == (0.9, 1.0)


@pytest.mark.parametrize("options", [{}, {"lr": 0.7, "beta": 0.5}], ids=str)
def test_runs_like_the_reference(options):
    assert_follows(Setting(weight_decay=0.02, momentum=0.5, lr=0.05), "fedavgm", **options)


def test_batch_norm_is_averaged_and_no_part_of_u():
    assert_follows(normalised(rounds=4), "fedavgm", beta=0.6)


def test_its_costs():
    assert_costs_a_client_nothing("fedavgm", {"u"})
    assert FedAvgM.server_operations == 2


@pytest.mark.parametrize(("option", "value"), [("beta", 1), ("beta", -0.1), ("lr", 0), ("lr", math.inf)])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedavgm': option '{option}' is {value}"):
        make_method("fedavgm", {option: value}, model="cnn", dataset="mnist")


def test_an_exponential_average_is_caught(monkeypatch):
    # The pitfall: u ← βu + (1 − β)(w − w̄), ten times slower at β = 0.9.
    def averaged(self, w, proposed, state):
        u = self.beta * state["u"] + (1 - self.beta) * (w - proposed)
        return w - self.lr * u, {"u": u}

    monkeypatch.setattr(Momentum, "__call__", averaged)
    for test in (test_two_rounds_by_hand, test_rounds_that_agree_move_it_ever_further):
        with pytest.raises(AssertionError):
            test()
