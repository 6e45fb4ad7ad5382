"""FedSMOO: e along g − μ_k − s, μ_k ← μ_k + e − s in every step; s ← ρ·M/(‖M‖ + 1e-7), M the mean of μ_k; else
FedSpeed."""

import math

import pytest
import torch
from tests.reference.naive import CLOSE, apart, run_naive
from tests.reference.quadratic import gradient_of, vectors
from tests.reference.setting import Setting, normalised
from tests.reference.sharpness import (
    COST,
    assert_follows_sharply,
    bowl,
    check_costs,
    check_refused,
    direction_of,
    keeping,
    looks_from,
    on_the_ray,
    play_on_a_ray,
    settings,
    slope,
    uphill,
)
from tests.reference.watching import run_with_failures, watched

from fedtrip.methods._sharpness import Sam, of_length
from fedtrip.methods.fedsmoo import FedSmoo, SharedSam
from fedtrip.methods.interface import Memory, make_method


def test_two_rounds_by_hand():
    # α = ½, ρ = 1, η = ½, N = 4, on a ray; e = ±1, the sign of g − μ − s. Round 1, μ = s = 0: client 0 (b 5): e −1, μ
    # −1, r 3; −2 + 1 < 0: e −1, μ −2, r 3.75. Client 1 (b 10): e −1, r 5.5; −4.5 + 1: e −1, μ −2, r 6.875. As
    # FedSpeed: h_0 = 3.75, h_1 = 6.875, H = 2.65625, w = 7.96875. M = −2, s = −1. Round 2: client 0: 2.96875 + 2 + 1 >
    # 0: e 1, μ −2 + 1 + 1 = 0; h = 3.96875 + 1.875: r 5.046875; 0.046875 − 0 + 1 > 0: e 1, μ 2; 1.046875 + ½·0.828125
    # = 1.4609375: r 4.31640625. Client 2 (b 8.5, μ 0): g = −0.53125, but −0.53125 + 1 > 0: e 1, μ 2; h = 0.46875: r
    # 7.734375; −0.765625 − 2 + 1 < 0: e −1, μ 2 − 1 + 1 = 2; −1.765625 − ½·0.234375 = −1.8828125: r 8.67578125. Δ =
    # −3.65234375, 0.70703125; H = 2.65625 − 2.9453125/4 = 1.919921875; w = 6.49609375 + H = 8.416015625; s = 1.
    found, history = play_on_a_ray(FedSmoo(alpha=0.5, rho=1.0), [5, 10, 8.5, 9], [(0, 1), (0, 2)])
    assert found == pytest.approx([7.96875, 8.416015625], rel=1e-4)
    assert [on_the_ray(server.state["s"]) for server, _ in history] == pytest.approx([-1.0, 1.0], rel=1e-4)
    kept = {k: on_the_ray(memory["mu"]) for k, memory in history[-1][1].items()}
    assert kept == pytest.approx({0: 2.0, 1: -2.0, 2: 2.0}, rel=1e-4)
    kept = {k: -on_the_ray(memory["lambda_k"]) / 0.5 for k, memory in history[-1][1].items()}
    assert kept == pytest.approx({0: 0.09765625, 1: 6.875, 2: 0.70703125}, rel=1e-4)


@pytest.mark.parametrize("new", [True, False])
def test_the_steps_are_autograds_of_the_written_objective(new):
    w, w_k, h_k, mu, s = vectors(5)
    memory = Memory() if new else keeping(lambda_k=-0.7 * h_k, mu=mu)
    direction = direction_of(FedSmoo(alpha=0.7, rho=0.3), {"w": w, "s": s}, memory)
    mu = torch.zeros_like(mu) if new else mu
    for step, at in enumerate((w_k, w)):
        h = direction.at(at.clone(), looks_from(at), step)
        e = uphill(0.3, slope(at) - mu.double() - s.double())
        mu = (mu.double() + e - s.double()).float()

        def objective(v, e=e):
            shifted = v - w.double() + (0.0 if new else h_k.double())
            return bowl(v + e) + 0.35 * shifted.square().sum()

        torch.testing.assert_close(h, gradient_of(objective, at), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(direction.mu, mu, rtol=1e-4, atol=1e-5)


def test_the_first_step_of_all_is_fedsams():
    w, w_k = vectors(2)
    direction = direction_of(FedSmoo(rho=0.3, alpha=0.1), {"w": w, "s": torch.zeros_like(w)}, Memory())
    sams = Sam(0.3, direction.correction).at(w_k.clone(), looks_from(w_k), 0)
    assert torch.equal(direction.at(w_k.clone(), looks_from(w_k), 0), sams)
    later = Sam(0.3, direction.correction).at(w.clone(), looks_from(w), 1)
    assert not torch.equal(direction.at(w.clone(), looks_from(w), 1), later)  # μ has gone on


@settings
def test_without_a_way_uphill_it_is_feddyn_to_rounding(setting):
    usual = setting.run("feddyn", alpha=0.3).module
    assert apart(setting.run("fedsmoo", alpha=0.3, rho=0.0).state, usual) < 2e-6
    assert apart(setting.run("fedsmoo", alpha=0.3, rho=0.5).state, usual) > 1e-3


def test_the_shared_way_has_the_length_rho_and_is_the_mean_of_what_came_up():
    setting = Setting(per_round=3)
    wire, records, history = watched(setting, "fedsmoo", rho=0.4)
    for record, (server, _) in zip(records, history, strict=True):
        s, mean = server.state["s"], sum(wire.up[record.round, 0, k]["mu"].double() for k in record.clients) / 3
        assert float(s.norm()) == pytest.approx(0.4, rel=1e-6)
        torch.testing.assert_close(s, 0.4 * mean / mean.norm(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("failures", [set(), {(2, 0)}, {(1, 2), (5, 1)}], ids=str)
def test_a_refused_client_keeps_what_it_had(failures):
    setting = Setting(rounds=6)
    state, records, model = run_with_failures(setting, failures, "fedsmoo", rho=0.4)
    assert sum(len(record.refused) for record in records) == len(failures)
    module, reference = run_naive(setting, "fedsmoo", failures=failures, rho=0.4)
    assert apart(model, module) < CLOSE
    for k, mu in reference.mu.items():
        assert float(state.memories.get(k)["mu"].norm()) == pytest.approx(float(mu.norm()), rel=1e-4)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.0, 0.05), (0.9, 0.05)])
def test_runs_like_the_reference(compute, momentum, weight_decay):
    setting = Setting(compute=compute, momentum=momentum, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_sharply(setting, "fedsmoo", rho=0.4, alpha=0.3)


def test_statistics_of_batch_norm_see_each_batch_once_at_w_k():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "fedsmoo", rho=0.3)


def test_its_costs():
    check_costs("fedsmoo", passes=2, operations=9, server=5, down=1, up=1, keeps=2)
    attaching = FedSmoo().attaching(COST)
    assert attaching.flops == 7 * 4 * 300 + 11 * 7 * 10
    assert (attaching.formula, attaching.communication) == ("K·M(FP+BP) + 11K|w|", "2|w|")
    method = make_method("fedsmoo", {}, model="cnn", dataset="mnist")
    assert (method.alpha, method.rho, method.momentum) == (0.1, 0.1, 0.0)


@pytest.mark.parametrize(("option", "value"), [("rho", -0.1), ("rho", math.nan), ("alpha", 0.0)])
def test_bad_options_are_refused(option, value):
    check_refused("fedsmoo", option, value)


WRONG = {
    "without s": lambda self, g: (g - self.mu, -self.s),
    "without μ": lambda self, g: (g - self.s, -self.s),
    "the signs of μ and s flipped": lambda self, g: (g + self.mu + self.s, -self.s),
    "μ that forgets s": lambda self, g: (g - self.mu - self.s, 0.0),
    "s in place of −s": lambda self, g: (g - self.mu - self.s, self.s),
}


def fails():
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, 0.0)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_steps_are_caught(wrong, monkeypatch):
    def at(self, w_k, gradient, step):  # noqa: ARG001
        v, change = WRONG[wrong](self, gradient())
        e = of_length(self.rho, v)
        self.mu = self.mu + e + change
        h = gradient(e)
        self.correction.add_to(h, w_k)
        return h

    monkeypatch.setattr(SharedSam, "at", at)
    fails()
    with pytest.raises(AssertionError):
        test_the_steps_are_autograds_of_the_written_objective(new=False)


def test_a_mu_that_begins_anew_in_every_round_is_caught(monkeypatch):
    right = FedSmoo.client

    def client(self, received, memory, local):
        forgotten = {name: 0 * v if name == "mu" else v for name, v in memory.vectors.items()}
        return right(self, received, Memory(forgotten, memory.last_round), local)

    monkeypatch.setattr(FedSmoo, "client", client)
    fails()
