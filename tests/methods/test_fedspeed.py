"""FedSpeed: step (1−γ)g + γ·∇f(w_k + e) + α(w_k − w + h_k); h_k ← h_k + Δ_k; H ← H + (1/N)ΣΔ_k; w ← w̄ + H."""

import math

import pytest
import torch
from tests.reference.naive import apart
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
from tests.reference.watching import watched

from fedtrip.methods import _sharpness
from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods.fedspeed import FedSpeed
from fedtrip.methods.interface import Affine, Memory, Method, make_method


def test_two_rounds_by_hand():
    # α = ½, ρ = 1, γ = 1, η = ½, N = 4, on a ray: r ← r − ½[r − b ± 1 + ½(r − w + h_k)]. Round 1 from 0: client 0 (b
    # 5): −6; −2 − 1 + 1.5 = −1.5: r = 3, 3.75. Client 1 (b 10): −11; −4.5 − 1 + 2.75 = −2.75: 5.5, 6.875. h_0 = 3.75,
    # h_1 = 6.875, H = 10.625/4 = 2.65625, w = 5.3125 + H = 7.96875. Round 2: client 0: 2.96875 + 1 + 1.875 = 5.84375:
    # 5.046875; 0.046875 + 1 + ½·0.828125 = 1.4609375: 4.31640625. Client 2 (b −5, h 0): 12.96875 + 1: 0.984375;
    # 5.984375 + 1 − ½·6.984375 = 3.4921875: −0.76171875. Δ = −3.65234375, −8.73046875; H = 2.65625 − 12.3828125/4 =
    # −0.439453125; w = 1.77734375 + H = 1.337890625.
    found, history = play_on_a_ray(FedSpeed(alpha=0.5, rho=1.0), [5, 10, -5, 9], [(0, 1), (0, 2)])
    assert found == pytest.approx([7.96875, 1.337890625], rel=1e-4)
    server, memories = history[-1]
    assert on_the_ray(server.state["h"]) == pytest.approx(-0.5 * -0.439453125, rel=1e-4)  # h = −αH
    kept = {k: -on_the_ray(memory["lambda_k"]) / 0.5 for k, memory in memories.items()}  # h_k = −λ_k/α
    assert kept == pytest.approx({0: 0.09765625, 1: 6.875, 2: -8.73046875}, rel=1e-4)


def test_one_round_with_a_mixture_by_hand():
    # γ = ¼: r − b ± ¼. Client 0 (b 5): −5.25; −2.375 − ¼ + ½·2.625 = −1.3125: r = 2.625, 3.28125; alone, N = 1:
    # w = 3.28125 + 3.28125.
    found, _ = play_on_a_ray(FedSpeed(alpha=0.5, rho=1.0, gamma=0.25), [5], [(0,)])
    assert found == pytest.approx([6.5625], rel=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("new", [True, False])
def test_the_step_is_autograds_of_the_written_objective(gamma, new):
    w, w_k, h_k = vectors(3)
    memory = Memory() if new else keeping(lambda_k=-0.7 * h_k)
    method = FedSpeed(alpha=0.7, rho=0.3, gamma=gamma)
    h = direction_of(method, {"w": w}, memory).at(w_k.clone(), looks_from(w_k), 1)
    e = uphill(0.3, slope(w_k))

    def objective(v):
        shifted = v - w.double() + (0.0 if new else h_k.double())
        return (1 - gamma) * bowl(v) + gamma * bowl(v + e) + 0.35 * shifted.square().sum()

    torch.testing.assert_close(h, gradient_of(objective, w_k), rtol=1e-4, atol=1e-5)


@settings
def test_without_a_way_uphill_it_is_feddyn_to_rounding(setting):
    usual = setting.run("feddyn", alpha=0.3).module
    assert apart(setting.run("fedspeed", alpha=0.3, rho=0.0).state, usual) < 2e-6
    assert apart(setting.run("fedspeed", alpha=0.3, rho=0.5, gamma=0.0).state, usual) < 2e-6
    assert apart(setting.run("fedspeed", alpha=0.3, rho=0.5).state, usual) > 1e-3


def test_without_the_regulariser_it_is_fedsam(monkeypatch):
    # α → 0 and H off: the server takes the mean, and what is kept pulls with 1e-12.
    monkeypatch.setattr(FedSpeed, "aggregate", Method.aggregate)
    setting = Setting(local_epochs=2, weight_decay=0.02)
    sharp = setting.run("fedsam", rho=0.3).module
    assert apart(setting.run("fedspeed", alpha=1e-12, rho=0.3).state, sharp) < 2e-6


def test_the_servers_h_is_the_mean_over_all_clients():
    _, _, history = watched(Setting(), "fedspeed", alpha=0.2)
    assert any(memory.is_new for memory in history[1][1])
    for server, memories in history:
        mean = sum(memory["lambda_k"].double() for memory in memories if not memory.is_new) / 5
        torch.testing.assert_close(server.state["h"], mean, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.0, 0.05), (0.9, 0.05)])
@pytest.mark.parametrize("gamma", [1.0, 0.4])
def test_runs_like_the_reference(compute, momentum, weight_decay, gamma):
    setting = Setting(compute=compute, momentum=momentum, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_sharply(setting, "fedspeed", rho=0.4, alpha=0.3, gamma=gamma)


def test_statistics_of_batch_norm_see_each_batch_once_at_w_k():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "fedspeed", rho=0.3)


def test_its_costs():
    check_costs("fedspeed", passes=2, operations=5, server=3, keeps=1)
    check_costs("fedspeed", passes=2, operations=7, server=3, keeps=1, gamma=0.5)
    for gamma, elementwise in ((1.0, 7), (0.5, 9)):
        attaching = FedSpeed(gamma=gamma).attaching(COST)
        assert attaching.flops == 7 * 4 * 300 + elementwise * 7 * 10
        assert (attaching.formula, attaching.communication) == (f"K·M(FP+BP) + {elementwise}K|w|", "0")
    method = make_method("fedspeed", {}, model="cnn", dataset="mnist")
    assert (method.alpha, method.rho, method.gamma, method.momentum) == (0.1, 0.1, 1.0, 0.0)


@pytest.mark.parametrize(
    ("option", "value"), [("rho", -0.1), ("rho", math.inf), ("alpha", 0.0), ("gamma", 1.5), ("gamma", -0.1)]
)
def test_bad_options_are_refused(option, value):
    check_refused("fedspeed", option, value)


def fails():
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, 0.0, 1.0)


def test_a_mean_over_the_rounds_clients_is_caught(monkeypatch):
    # The paper's server: H over S in place of N.
    right = Dynamic.aggregate

    def aggregate(self, server, uploads):
        after = right(self, server, uploads)
        h = server.state["h"] + (after.state["h"] - server.state["h"]) * server.clients / uploads.count
        return after.updated(w=uploads.mean("w") - h / self.alpha, h=h)

    monkeypatch.setattr(Dynamic, "aggregate", aggregate)
    fails()


def test_a_flipped_sign_of_what_is_kept_is_caught(monkeypatch):
    monkeypatch.setattr(Dynamic, "pull", lambda self, w, lambda_k: Affine(self.alpha, lambda_k - self.alpha * w))
    fails()


def test_a_regulariser_at_w_k_and_beside_is_caught(monkeypatch):
    # e of the whole step, regulariser included.
    def at(self, w_k, gradient, step):  # noqa: ARG001
        g = _sharpness.corrected(gradient(), w_k, self.correction)
        e = _sharpness.of_length(self.rho, g)
        return _sharpness.corrected(gradient(e), w_k + e, self.correction)

    monkeypatch.setattr(_sharpness.Sam, "at", at)
    fails()
