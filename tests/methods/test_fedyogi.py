"""FedYogi: m ← β₁m + (1−β₁)Δ̄; v ← v − (1−β₂)Δ̄²·sign(v − Δ̄²); w ← w + η_g·m/(√v + τ); v starts at τ²."""

import math
from itertools import pairwise

import pytest
import torch
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
from fedtrip.methods.fedyogi import FedYogi
from fedtrip.methods.interface import make_method
from fedtrip.server_optimizers.yogi import Yogi


def test_two_rounds_by_hand():
    # η = ½ and one step: Δ_k = (b − w)/2. β₁ = ½, β₂ = ¾, τ = 5, so v starts at 25; η_g = 3.
    # Round 1: Δ = 36 and 20, with n = 1 and 3: Δ̄ = 96/4 = 24; 576 > 25, so v grows: 25 + 576/4 = 169; m = 12;
    # w = 3·12/(13 + 5) = 2. Round 2, client 2, first coordinate: Δ̄ = (22 − 2)/2 = 10; 100 < 169, so v falls: 169 −
    # 100/4 = 144; m = 6 + 5 = 11; w = 2 + 33/(12 + 5). Second: Δ̄ = (28 − 2)/2 = 13, whose square is v itself: it
    # stays; m = 6 + 6.5 = 12.5; w = 2 + 37.5/18.
    history = play(
        FedYogi(lr=3.0, tau=5.0, beta1=0.5, beta2=0.75),
        b=[[72.0, 72.0], [40.0, 40.0], [22.0, 28.0]], samples=[1, 3, 2], chosen=[(0, 1), (2,)], steps=1,
        start=(0.0, 0.0),
    )  # fmt: skip
    assert w_of(history) == [[2.0, 2.0], pytest.approx([2 + 33 / 17, 2 + 37.5 / 18], rel=1e-6)]
    assert [server.state["v"].tolist() for server, _ in history] == [[169.0, 169.0], [144.0, 169.0]]


def test_v_moves_by_a_share_of_the_square_or_not_at_all():
    generator = torch.Generator().manual_seed(3)
    deltas = (torch.randn(12, 20, generator=generator) * 0.01).tolist()
    states = [FedYogi().start(torch.zeros(20)), *(server.state for server in course(FedYogi(), deltas))]
    places = [torch.zeros(20), *(server.w for server in course(FedYogi(), deltas))]
    for t, delta in enumerate(deltas):
        seen = (places[t] + torch.tensor(delta)).double() - places[t].double()  # as it was rounded on its way
        moved = (states[t + 1]["v"] - states[t]["v"]).abs()
        torch.testing.assert_close(moved, 0.01 * seen * seen, rtol=1e-6, atol=1e-18)
    ups = [bool((b["v"] > a["v"]).any()) for a, b in pairwise(states)]
    downs = [bool((b["v"] < a["v"]).any()) for a, b in pairwise(states)]
    assert any(ups)
    assert any(downs)


def test_with_a_frozen_second_moment_it_is_fedavg_to_rounding():
    setting = Setting(weight_decay=0.01)
    frozen = setting.run("fedyogi", beta1=0.0, beta2=1 - 1e-15, tau=1e-3, lr=2e-3)
    assert apart(frozen.state, setting.run("fedavg").module) < 1e-6


def test_what_no_client_moves_stays():
    assert all(server.w.tolist()[1] == 0.0 for server in course(FedYogi(), [[0.5, 0.0]] * 4))


def test_it_is_fedavg_with_the_server_optimizer_to_the_bit():
    assert_is_fedavg_with("yogi", "fedyogi")
    assert_is_fedavg_with("yogi", "fedyogi", lr=0.1, beta1=0.5, beta2=0.9, tau=0.01)


def test_the_clients_take_plain_steps():
    assert_clients_take_plain_steps(FedYogi())
    made = FedYogi()
    assert (made.lr, made.beta1, made.beta2, made.tau, made.bias_correction) == (0.01, 0.9, 0.99, 1e-3, False)


@pytest.mark.parametrize(
    "options",
    [
        {"tau": 0.01},
        {"lr": 0.1, "tau": 0.1, "beta1": 0.5, "beta2": 0.7},
        {"bias_correction": True, "tau": 0.1, "lr": 0.1},
    ],
    ids=str,
)
def test_runs_like_the_reference(options):
    assert_follows(Setting(weight_decay=0.02), "fedyogi", **options)


def test_the_bias_may_be_corrected():
    # By hand: β₁ = ½, β₂ = ¾, τ = 0.5, η_g = 1. Round 1, Δ̄ = 2: m = 1, v = 1 (from 0), √(1 − ¾)/(1 − ½) = 1;
    # w = 1/1.5. Round 2, Δ̄ = 2: m = ½ + 1 = 1.5; v = 1 + ¼·4 = 2 (4 > 1); √(1 − 9/16)/(1 − ¼) = (√7/4)/¾ = √7/3.
    method = FedYogi(lr=1.0, tau=0.5, beta1=0.5, beta2=0.75, bias_correction=True)
    first, second = course(method, [[2.0], [2.0]])
    assert float(first.w) == pytest.approx(1 / 1.5, rel=1e-6)
    move = math.sqrt(7) / 3 * 1.5 / (math.sqrt(2) + 0.5)
    assert float(second.w) == pytest.approx(1 / 1.5 + move, rel=1e-6)
    assert int(second.state["steps"]) == 2


def test_batch_norm_is_averaged_and_no_part_of_the_moments():
    assert_follows(normalised(rounds=4), "fedyogi", lr=0.05, tau=0.1)


def test_its_costs():
    assert_costs_a_client_nothing("fedyogi", {"m", "v"})


@pytest.mark.parametrize(("option", "value"), [("beta1", 1), ("beta2", 1), ("tau", 0), ("lr", 0), ("lr", math.inf)])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedyogi': option '{option}' is {value}"):
        make_method("fedyogi", {option: value}, model="cnn", dataset="mnist")


WRONG = {
    "adams": lambda self, v, square: self.beta2 * v + (1 - self.beta2) * square,
    "the other sign": lambda self, v, square: (v + (1 - self.beta2) * square * (v - square).sign()).abs(),
    "no zero": lambda self, v, square: v - (1 - self.beta2) * square * torch.where(v >= square, 1.0, -1.0).double(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_second_moment_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(Yogi, "second_moment", WRONG[wrong])
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
