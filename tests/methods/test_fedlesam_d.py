"""FedLESAM-D: step ∇f(w_k + e) − λ_k + α(w_k − w), e FedLESAM's; λ_k, h and w as FedDyn's."""

import math

import pytest
import torch
from tests.reference.naive import apart
from tests.reference.quadratic import gradient_of, vectors
from tests.reference.setting import Setting, normalised
from tests.reference.sharpness import (
    COST,
    assert_follows_sharply,
    bits,
    bowl,
    check_costs,
    check_refused,
    direction_of,
    keeping,
    looks_from,
    on_the_ray,
    play_on_a_ray,
    settings,
    uphill,
)
from tests.reference.watching import watched

from fedtrip.methods import fedlesam_d
from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods.fedlesam_d import FedLesamD
from fedtrip.methods.interface import Memory, Reply, make_method


def test_two_rounds_by_hand():
    # α = ½, ρ = 1, η = ½, N = 4, on a ray, h_k = −λ_k/α: r ← r − ½[r + e − b + ½(r − w + h_k)]. Round 1 from 0, all
    # new: client 0 (b 5): −5; −2.5 + 1.25: r = 2.5, 3.125. Client 1 (b 10): 5, 6.25. H = 9.375/4 = 2.34375; w = 4.6875
    # + H = 7.03125. Round 2: client 0 has w_prev = 0, e = −1: 2.03125 − 1 + 1.5625 = 2.59375: 5.734375; 0.734375 − 1 +
    # ½·1.828125 = 0.6484375: 5.41015625. Client 2 (b −5) is new: 12.03125: 1.015625; 6.015625 − 3.0078125:
    # −0.48828125. Δ = −1.62109375, −7.51953125; H = 2.34375 − 9.140625/4 = 0.05859375; w = 2.4609375 + H = 2.51953125.
    found, history = play_on_a_ray(FedLesamD(alpha=0.5, rho=1.0), [5, 10, -5, 9], [(0, 1), (0, 2)])
    assert found == pytest.approx([7.03125, 2.51953125], rel=1e-4)
    server, memories = history[-1]
    assert on_the_ray(server.state["h"]) == pytest.approx(-0.5 * 0.05859375, rel=1e-4)
    kept = {k: -on_the_ray(memory["lambda_k"]) / 0.5 for k, memory in memories.items()}
    assert kept == pytest.approx({0: 1.50390625, 1: 6.25, 2: -7.51953125}, rel=1e-4)
    kept = {k: on_the_ray(memory["w_prev"]) for k, memory in memories.items()}
    assert kept == pytest.approx({0: 7.03125, 1: 0.0, 2: 7.03125}, rel=1e-4)


def test_the_step_is_autograds_of_the_written_objective():
    w, w_k, w_prev, lambda_k = vectors(4)
    memory = keeping(w_prev=w_prev, lambda_k=lambda_k)
    direction = direction_of(FedLesamD(rho=0.3, alpha=0.7), {"w": w}, memory)
    h, e = direction.at(w_k.clone(), looks_from(w_k), 0), uphill(0.3, w_prev.double() - w.double())

    def objective(v):
        return bowl(v + e) - lambda_k.double() @ v + 0.35 * (v - w.double()).square().sum()

    torch.testing.assert_close(h, gradient_of(objective, w_k), rtol=1e-4, atol=1e-5)


@settings
def test_without_a_way_uphill_it_is_feddyn_to_rounding(setting):
    usual = setting.run("feddyn", alpha=0.3).module
    assert apart(setting.run("fedlesam-d", alpha=0.3, rho=0.0).state, usual) < 2e-6
    assert apart(setting.run("fedlesam-d", alpha=0.3, rho=0.5).state, usual) > 1e-3


@settings
def test_the_first_round_is_feddyns_to_the_bit(setting):
    first = setting.but(rounds=1, per_round=5)
    assert bits(first, "fedlesam-d", alpha=0.3, rho=3.0) == bits(first, "feddyn", alpha=0.3)


def test_the_servers_h_is_the_mean_over_all_clients():
    _, _, history = watched(Setting(), "fedlesam-d", alpha=0.2, rho=0.4)
    assert any(memory.is_new for memory in history[1][1])
    for server, memories in history:
        mean = sum(memory["lambda_k"].double() for memory in memories if not memory.is_new) / 5
        torch.testing.assert_close(server.state["h"], mean, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.0, 0.05), (0.9, 0.05)])
def test_runs_like_the_reference(compute, momentum, weight_decay):
    setting = Setting(compute=compute, momentum=momentum, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_sharply(setting, "fedlesam-d", rho=0.5, alpha=0.3)


def test_statistics_of_batch_norm_see_each_batch_once():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "fedlesam-d", rho=0.5)


def test_its_costs():
    check_costs("fedlesam-d", passes=1, operations=(2, 3), server=3, keeps=2)
    attaching = FedLesamD().attaching(COST)
    assert attaching.flops == 4 * 7 * 10 + 10 * 10
    assert (attaching.formula, attaching.communication) == ("4K|w| + (K+3)|w|", "0")
    method = make_method("fedlesam-d", {}, model="cnn", dataset="mnist")
    assert (method.alpha, method.rho, method.momentum) == (0.1, 0.1, 0.0)


@pytest.mark.parametrize(("option", "value"), [("rho", -0.1), ("rho", math.nan), ("alpha", 0.0)])
def test_bad_options_are_refused(option, value):
    check_refused("fedlesam-d", option, value)


def fails():
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, 0.0)


def test_a_lambda_that_grows_the_wrong_way_is_caught(monkeypatch):
    monkeypatch.setattr(Dynamic, "next_lambda", lambda self, lambda_k, w, w_k: lambda_k + self.alpha * (w_k - w))
    fails()


def test_a_pull_to_where_the_client_was_is_caught(monkeypatch):
    # w_prev in place of w as the regulariser's anchor.
    def client(self, received, memory, local):
        w, lambda_k = received["w"], self.lambda_k(received, memory)
        pull = self.pull(w if memory.is_new else memory["w_prev"], lambda_k)
        trained = fedlesam_d.train_beside(self.rho, received, memory, local, pull)
        return Reply(trained, {"lambda_k": self.next_lambda(lambda_k, w, trained["w"]), "w_prev": w})

    monkeypatch.setattr(FedLesamD, "client", client)
    fails()


def test_a_lambda_that_is_always_a_newcomers_is_caught(monkeypatch):
    monkeypatch.setattr(Dynamic, "lambda_k", lambda _self, received, _memory: torch.zeros_like(received["w"]))
    fails()


def test_plain_gradients_are_caught(monkeypatch):
    monkeypatch.setattr(
        fedlesam_d, "train_beside", lambda _rho, received, _memory, local, correction: local.train(received, correction)
    )
    fails()


def test_a_newcomer_has_no_way_uphill():
    w = vectors(1)[0]
    assert direction_of(FedLesamD(), {"w": w}, Memory()) is None
