"""FedSAM: step ∇f(w_k + e), e = ρ·g/(‖g‖ + 1e-7), g = ∇f(w_k) on the same batch; w ← uniform mean."""

import math

import pytest
import torch
from tests.reference.quadratic import gradient_of, vectors
from tests.reference.setting import Setting, normalised
from tests.reference.sharpness import (
    COST,
    UniformFedAvg,
    assert_follows_sharply,
    bits,
    bowl,
    check_costs,
    check_refused,
    direction_of,
    looks_from,
    play_on_a_ray,
    settings,
    slope,
    uphill,
)

from fedtrip.methods import _sharpness
from fedtrip.methods.fedsam import FedSam
from fedtrip.methods.interface import Memory
from fedtrip.training.flat_model import FlatModel


def test_two_rounds_by_hand():
    # ρ = 1, η = ½, on a ray: h = r − b ± 1, away from b. Round 1 from 0: client 0 (b 5) −6, −3: r = 3, 4.5; client 1
    # (b 10) −11, −5.5: 5.5, 8.25. w = 6.375 (uniform, though n differs). Round 2: client 0: 1.375 + 1, 0.1875 + 1:
    # r = 5.1875, 4.59375; client 2 (b −5): 11.375 + 1, 5.1875 + 1: 0.1875, −2.90625. w = 0.84375.
    found, _ = play_on_a_ray(FedSam(rho=1.0), [5, 10, -5], [(0, 1), (0, 2)])
    assert found == pytest.approx([6.375, 0.84375], rel=1e-5)


@pytest.mark.parametrize("rho", [0.05, 2.0])
def test_the_step_is_autograds_gradient_uphill(rho):
    w, w_k = vectors(2)
    h = direction_of(FedSam(rho=rho), {"w": w}, Memory()).at(w_k.clone(), looks_from(w_k), 3)
    e = uphill(rho, slope(w_k))
    assert e.norm() == pytest.approx(rho, rel=1e-6)
    torch.testing.assert_close(h, gradient_of(lambda v: bowl(v + e), w_k), rtol=1e-4, atol=1e-5)
    assert (h - slope(w_k)).norm() > 0.01


def test_on_a_quadratic_it_is_the_written_formula():
    # f = ½wᵀAw: h = A(w + ρAw/‖Aw‖).
    factor, w_k = torch.stack(vectors(5, size=5)), vectors(1, size=5, seed=4)[0]
    a = factor @ factor.T
    h = direction_of(FedSam(rho=0.7), {"w": w_k}, Memory()).at(
        w_k.clone(), lambda offset=None: a @ (w_k if offset is None else w_k + offset), 0
    )
    torch.testing.assert_close(h, a @ (w_k + 0.7 * (a @ w_k) / (a @ w_k).norm()), rtol=1e-4, atol=1e-5)


def test_where_the_slope_is_zero_it_looks_at_w_k():
    looked = []
    h = direction_of(FedSam(rho=0.5), {"w": torch.ones(3)}, Memory()).at(
        torch.ones(3), lambda offset=None: looked.append(offset) or torch.zeros(3), 0
    )
    assert looked[0] is None
    assert looked[1].tolist() == h.tolist() == [0.0, 0.0, 0.0]


@settings
def test_without_a_way_uphill_it_is_fedavg_to_the_bit(setting):
    assert bits(setting, "fedsam", rho=0.0) == bits(setting, UniformFedAvg()) != bits(setting, "fedsam", rho=0.1)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.0, 0.05), (0.9, 0.05)])
def test_runs_like_the_reference(compute, momentum, weight_decay):
    setting = Setting(compute=compute, momentum=momentum, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_sharply(setting, "fedsam", rho=0.3)


def test_statistics_of_batch_norm_see_each_batch_once_at_w_k():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "fedsam", rho=0.3)


def test_its_costs():
    check_costs("fedsam", passes=2, operations=3)
    attaching = FedSam().attaching(COST)
    assert attaching.flops == 7 * 4 * 300 + 3 * 7 * 10
    assert (attaching.formula, attaching.communication) == ("K·M(FP+BP) + 3K|w|", "0")
    assert (FedSam().rho, FedSam.momentum) == (0.1, 0.0)


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_bad_options_are_refused(value):
    check_refused("fedsam", "rho", value)


WRONG = {
    "e is not of length ρ": lambda rho, v: rho * v,
    "each number has its own norm": lambda rho, v: rho * v / v.abs(),
    "downhill": lambda rho, v: -rho * v / v.norm(),
    "‖g‖² for ‖g‖": lambda rho, v: rho * v / v.square().sum(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_variants_are_caught(wrong, monkeypatch):
    monkeypatch.setattr(_sharpness, "of_length", WRONG[wrong])
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_the_step_is_autograds_gradient_uphill(0.05)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, 0.0)


def test_the_gradient_at_w_k_in_the_step_is_caught(monkeypatch):
    monkeypatch.setattr(
        _sharpness.Sam,
        "at",
        lambda self, _w_k, gradient, _step: (g := gradient()) + 0 * gradient(_sharpness.of_length(self.rho, g)),
    )
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_on_a_quadratic_it_is_the_written_formula()


def test_statistics_that_move_in_both_passes_are_caught(monkeypatch):
    monkeypatch.setattr(FlatModel, "set_statistics", lambda *_: None)
    with pytest.raises(AssertionError):
        test_statistics_of_batch_norm_see_each_batch_once_at_w_k()
