"""FedAdam: m ← β₁m + (1−β₁)Δ̄; v ← β₂v + (1−β₂)Δ̄²; w ← w + η_g·m/(√v + τ); v starts at τ², no bias correction."""

import math

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
from fedtrip.methods.fedadam import FedAdam
from fedtrip.methods.interface import make_method
from fedtrip.server_optimizers.adam import Adam
from fedtrip.vectors import square_root


def test_two_rounds_by_hand():
    # η = ½ and one step: Δ_k = (b − w)/2. β₁ = β₂ = ½, τ = 1, so v starts at 1; η_g = 6.
    # Round 1, first coordinate: Δ = 13 and 5, with n = 1 and 3: Δ̄ = 28/4 = 7; m = 3.5; v = ½ + 24.5 = 25;
    # w = 6·3.5/(5 + 1) = 3.5. Second: both −7: w = −3.5. Round 2, client 2: Δ̄ = (13.5 − 3.5)/2 = 5 and (6.5 + 3.5)/2
    # = 5; v = 12.5 + 12.5 = 25; m = 1.75 + 2.5 = 4.25 and −1.75 + 2.5 = 0.75; w = 3.5 + 4.25 and −3.5 + 0.75.
    history = play(
        FedAdam(lr=6.0, tau=1.0, beta1=0.5, beta2=0.5),
        b=[[26.0, -14.0], [10.0, -14.0], [13.5, 6.5]], samples=[1, 3, 2], chosen=[(0, 1), (2,)], steps=1,
        start=(0.0, 0.0),
    )  # fmt: skip
    assert w_of(history) == [[3.5, -3.5], [7.75, -2.75]]
    assert [server.state["v"].tolist() for server, _ in history] == [[25.0, 25.0], [25.0, 25.0]]
    assert [server.state["m"].tolist() for server, _ in history] == [[3.5, -3.5], [4.25, 0.75]]


def test_with_a_frozen_second_moment_it_is_fedavg_to_rounding():
    # β₂ → 1: v stays τ², so η_g·m/(√v + τ) = η_g·Δ̄/(2τ), which is Δ̄ for η_g = 2τ.
    setting = Setting(weight_decay=0.01)
    frozen = setting.run("fedadam", beta1=0.0, beta2=1 - 1e-15, tau=1e-3, lr=2e-3)
    assert apart(frozen.state, setting.run("fedavg").module) < 1e-6


def test_what_no_client_moves_stays():
    assert all(server.w.tolist()[1] == 0.0 for server in course(FedAdam(), [[0.5, 0.0]] * 4))


def test_it_is_fedavg_with_the_server_optimizer_to_the_bit():
    assert_is_fedavg_with("adam", "fedadam")
    assert_is_fedavg_with("adam", "fedadam", lr=0.1, beta1=0.5, beta2=0.9, tau=0.01)


def test_the_clients_take_plain_steps():
    assert_clients_take_plain_steps(FedAdam())
    made = FedAdam()
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
    assert_follows(Setting(weight_decay=0.02), "fedadam", **options)


def test_the_bias_may_be_corrected():
    # By hand: β₁ = ½, β₂ = ¾, τ = 0.5, η_g = 1. Round 1, Δ̄ = 2: m = 1, v = 1 (from 0), √(1 − ¾)/(1 − ½) = 1;
    # w = 1/1.5. Round 2, Δ̄ = 2: m = ½ + 1 = 1.5; v = ¾·1 + ¼·4 = 1.75; √(1 − 9/16)/(1 − ¼) = (√7/4)/¾ = √7/3.
    method = FedAdam(lr=1.0, tau=0.5, beta1=0.5, beta2=0.75, bias_correction=True)
    first, second = course(method, [[2.0], [2.0]])
    assert float(first.w) == pytest.approx(1 / 1.5, rel=1e-6)
    move = math.sqrt(7) / 3 * 1.5 / (math.sqrt(1.75) + 0.5)
    assert float(second.w) == pytest.approx(1 / 1.5 + move, rel=1e-6)
    assert int(second.state["steps"]) == 2


def test_with_the_correction_it_is_torchs_adam_on_the_pseudo_gradient():
    deltas = (torch.randn(6, 5, generator=torch.Generator().manual_seed(1)) * 0.1).tolist()
    servers = course(FedAdam(lr=0.1, tau=1e-12, bias_correction=True), deltas)
    w = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([w], lr=0.1, betas=(0.9, 0.99), eps=1e-12)
    for delta, server in zip(deltas, servers, strict=True):
        w.grad = -torch.tensor(delta, dtype=torch.float64)
        adam.step()
        torch.testing.assert_close(server.w.double(), w.detach(), rtol=1e-4, atol=1e-5)


def test_batch_norm_is_averaged_and_no_part_of_the_moments():
    assert_follows(normalised(rounds=4), "fedadam", lr=0.05, tau=0.1)


def test_its_costs():
    assert_costs_a_client_nothing("fedadam", {"m", "v"})


@pytest.mark.parametrize(("option", "value"), [("beta1", 1), ("beta2", 1), ("tau", 0), ("lr", 0), ("lr", math.inf)])
def test_bad_options_are_refused(option, value):
    with pytest.raises(UserError, match=f"'fedadam': option '{option}' is {value}"):
        make_method("fedadam", {option: value}, model="cnn", dataset="mnist")


def v_from_m(self, w, proposed, state):
    """v of the square of m in place of Δ̄'s."""
    m = self.beta1 * state["m"] + (1 - self.beta1) * (proposed - w)
    v = self.second_moment(state["v"], m * m)
    return w + self.lr * m / (square_root(v) + self.tau), {"m": m, "v": v}


def constants(self, w, proposed, state):
    """m and v divided by 1 − β every round, as if each were the first."""
    delta = proposed - w
    m = self.beta1 * state["m"] + (1 - self.beta1) * delta
    v = self.second_moment(state["v"], delta * delta)
    root = square_root(v / (1 - self.beta2)) + self.tau
    return w + self.lr * (m / (1 - self.beta1)) / root, {"m": m, "v": v}


@pytest.mark.parametrize("wrong", [v_from_m, constants])
def test_wrong_moments_are_caught(monkeypatch, wrong):
    # Both are faults of a public implementation.
    monkeypatch.setattr(Adam, "__call__", wrong)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference({"lr": 0.1, "tau": 0.1, "beta1": 0.5, "beta2": 0.7})


def test_a_correction_that_counts_one_round_too_many_is_caught(monkeypatch):
    right = FedAdam.__call__

    def ahead(self, w, proposed, state):
        return right(self, w, proposed, {**state, "steps": state["steps"] + 1})

    monkeypatch.setattr(FedAdam, "__call__", ahead)
    for test in (test_the_bias_may_be_corrected, test_with_the_correction_it_is_torchs_adam_on_the_pseudo_gradient):
        with pytest.raises(AssertionError):
            test()
