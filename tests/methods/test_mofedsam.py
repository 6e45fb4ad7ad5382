"""MoFedSAM: w_k ← w_k − η[αh + (1−α)s], h FedSAM's; s ← uniform mean of (w − w_k)/(K_k·η); w ← w + η_g·Δ̄."""

import math

import pytest
import torch
from tests.reference.quadratic import gradient_of, vectors
from tests.reference.setting import Setting, normalised
from tests.reference.sharpness import (
    COST,
    DirectedLocal,
    assert_follows_sharply,
    bits,
    bowl,
    check_costs,
    check_refused,
    looks_from,
    on_the_ray,
    plain_settings,
    play_on_a_ray,
    slope,
    uphill,
)

from fedtrip.methods import _sharpness
from fedtrip.methods._sharpness import Sam, of_length
from fedtrip.methods.interface import Memory
from fedtrip.methods.mofedsam import MoFedSam


def test_two_rounds_by_hand():
    # α = ½, ρ = 1, η = ½, K = 2, so Kη = 1; on a ray: r ← r − ¼(h + s), h = r − b ± 1. Round 1, s = 0: client 0 (b 5)
    # h = −6, −4.5: r = 1.5, 2.625; client 1 (b 10) −11, −8.25: 2.75, 4.8125. w = 3.71875; s = mean of −w_k = −3.71875.
    # Round 2: client 0: h + s = −1.28125 − 1 + s = −6: 5.21875; 0.21875 + 1 + s = −2.5: 5.84375. Client 2 (b −5):
    # 8.71875 + 1 + s = 6: 2.21875; 7.21875 + 1 + s = 4.5: 1.09375. w = 3.46875; s = (−2.125 + 2.625)/2 = 0.25.
    found, history = play_on_a_ray(MoFedSam(alpha=0.5, rho=1.0), [5, 10, -5], [(0, 1), (0, 2)])
    assert found == pytest.approx([3.71875, 3.46875], rel=1e-5)
    assert [on_the_ray(server.state["s"]) for server, _ in history] == pytest.approx([-3.71875, 0.25], rel=1e-5)


@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_the_step_is_the_written_mixture(alpha):
    # α·(h + c) is what lr_scale makes of the direction: α∇f(w_k + e) + (1−α)s, e from the gradient alone.
    w, w_k, s = vectors(3)
    local = DirectedLocal(w.tolist(), round_number=2, lr=0.1, steps=0, initial=w)
    MoFedSam(alpha=alpha, rho=0.3).client({"w": w, "s": s}, Memory(), local)
    h = alpha * local.directions[0].at(w_k.clone(), looks_from(w_k), 0)
    e = uphill(0.3, slope(w_k))
    wanted = gradient_of(lambda v: alpha * bowl(v + e) + (1 - alpha) * s.double() @ v, w_k)
    torch.testing.assert_close(h, wanted, rtol=1e-4, atol=1e-5)


@plain_settings
def test_without_a_way_uphill_it_is_fedcm_to_the_bit(setting):
    assert bits(setting, "mofedsam", rho=0.0) == bits(setting, "fedcm") != bits(setting, "mofedsam")
    assert bits(setting, "mofedsam", rho=0.0, alpha=0.4, eta_g=0.7) == bits(setting, "fedcm", alpha=0.4, eta_g=0.7)


@plain_settings
def test_without_the_servers_momentum_it_is_fedsam_to_the_bit(setting):
    assert bits(setting, "mofedsam", alpha=1.0, rho=0.3) == bits(setting, "fedsam", rho=0.3)
    assert bits(setting, "mofedsam", alpha=0.9, rho=0.3) != bits(setting, "fedsam", rho=0.3)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("options", [{"rho": 0.3}, {"rho": 0.5, "alpha": 0.4, "eta_g": 0.8}], ids=str)
def test_runs_like_the_reference(compute, weight_decay, options):
    # Unequal n_k, so that K_k differ and s is not w − w̄ over one Kη.
    setting = Setting(compute=compute, weight_decay=weight_decay, local_epochs=2)
    assert_follows_sharply(setting, "mofedsam", **options)


def test_statistics_of_batch_norm_see_each_batch_once_at_w_k():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "mofedsam", rho=0.3, alpha=0.4)


def test_its_costs():
    check_costs("mofedsam", passes=2, operations=4, server=2, each=2, down=1, numbers=1)
    attaching = MoFedSam().attaching(COST)
    assert attaching.flops == 7 * 4 * 300 + 5 * 7 * 10
    assert (attaching.formula, attaching.communication) == ("K·M(FP+BP) + 5K|w|", "|w|")
    method = MoFedSam()
    assert (method.alpha, method.rho, method.eta_g, MoFedSam.momentum) == (0.1, 0.1, 1.0, 0.0)


@pytest.mark.parametrize(("option", "value"), [("rho", -0.1), ("rho", math.inf), ("alpha", 0.0), ("alpha", 1.5)])
def test_bad_options_are_refused(option, value):
    check_refused("mofedsam", option, value)


def test_a_way_uphill_of_the_mixed_step_is_caught(monkeypatch):
    def at(self, w_k, gradient, step):  # noqa: ARG001
        g = gradient()
        self.correction.add_to(g, w_k)
        h = gradient(of_length(self.rho, g))
        self.correction.add_to(h, w_k)
        return h

    monkeypatch.setattr(Sam, "at", at)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_the_step_is_the_written_mixture(0.1)


def test_an_s_of_the_gradients_alone_is_caught(monkeypatch):
    # (w − w_k)/(αKη): s would be 1/α times as long, ten times with the default.
    right = MoFedSam.aggregate

    def aggregate(self, server, uploads):
        after = right(self, server, uploads)
        return after.updated(s=after.state["s"] / self.alpha)

    monkeypatch.setattr(MoFedSam, "aggregate", aggregate)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, {"rho": 0.3})


def test_plain_gradients_are_caught(monkeypatch):
    monkeypatch.setattr(_sharpness, "of_length", lambda _rho, v: 0 * v)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, {"rho": 0.3})
