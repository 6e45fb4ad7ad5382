"""FedLESAM-S: step ∇f(w_k + e) + c − c_k, e FedLESAM's; c_k⁺ = c_k − c + (w − w_k)/(Kη); c ← c + (1/N)Σ(c_k⁺ − c_k)."""

import math

import pytest
import torch
from tests.reference.naive import apart
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
    keeping,
    looks_from,
    on_the_ray,
    plain_settings,
    play_on_a_ray,
    uphill,
)
from tests.reference.watching import watched

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods import _sharpness, fedlesam_s
from fedtrip.methods.fedlesam_s import FedLesamS
from fedtrip.methods.interface import Affine


def test_three_rounds_by_hand():
    # ρ = 1, η = ½, K = 2, so Kη = 1; N = 3; on a ray. Round 1 from 0, all new and all zero: client 0 (b 5) 2.5, 3.75;
    # client 1 (b 10) 5, 7.5; w = 5.625; c_k = −3.75, −7.5; c = −3.75. Round 2: client 0 has e = −1 and c = c_0: r ← (r
    # + 6)/2: 5.8125, 5.90625; c_0 = 5.625 − 5.90625 = −0.28125. Client 2 (b −5) is new: r ← (r − 1.25)/2: 2.1875,
    # 0.46875; c_2 = 3.75 + 5.15625 = 8.90625. w = 3.1875; c = −3.75 + (3.46875 + 8.90625)/3 = 0.375. Round 3: client
    # 1, w_prev = 0: e = −1: h = r − 1 − 10 + 0.375 + 7.5: r ← (r + 3.125)/2: 3.15625, 3.140625; client 2, w_prev =
    # 5.625: e = 1: h = r + 1 + 5 + 0.375 − 8.90625: r ← (r + 2.53125)/2: 2.859375, 2.6953125. w = 2.91796875.
    found, history = play_on_a_ray(FedLesamS(rho=1.0), [5, 10, -5], [(0, 1), (0, 2), (1, 2)])
    assert found == pytest.approx([5.625, 3.1875, 2.91796875], rel=1e-4)
    assert [on_the_ray(server.state["c"]) for server, _ in history[:2]] == pytest.approx([-3.75, 0.375], rel=1e-4)
    kept = {k: on_the_ray(memory["c_k"]) for k, memory in history[1][1].items()}
    assert kept == pytest.approx({0: -0.28125, 1: -7.5, 2: 8.90625}, rel=1e-4)
    kept = {k: on_the_ray(memory["w_prev"]) for k, memory in history[-1][1].items()}
    assert kept == pytest.approx({0: 5.625, 1: 3.1875, 2: 3.1875}, rel=1e-4)


def test_the_step_is_autograds_of_the_written_objective():
    w, w_k, w_prev, c, c_k = vectors(5)
    direction = direction_of(FedLesamS(rho=0.3), {"w": w, "c": c}, keeping(w_prev=w_prev, c_k=c_k))
    h, e = direction.at(w_k.clone(), looks_from(w_k), 0), uphill(0.3, w_prev.double() - w.double())
    wanted = gradient_of(lambda v: bowl(v + e) + (c - c_k).double() @ v, w_k)
    torch.testing.assert_close(h, wanted, rtol=1e-4, atol=1e-5)


@plain_settings
def test_without_a_way_uphill_it_is_scaffold_to_rounding(setting):
    usual = setting.run("scaffold").module
    assert apart(setting.run("fedlesam-s", rho=0.0).state, usual) < 2e-6
    assert apart(setting.run("fedlesam-s", rho=0.5).state, usual) > 1e-3


@plain_settings
def test_the_first_round_is_fedavgs_to_the_bit(setting):
    first = setting.but(rounds=1)
    assert bits(first, "fedlesam-s", rho=3.0) == bits(first, UniformFedAvg())


def test_c_is_the_mean_of_all_clients():
    _, _, history = watched(Setting(), "fedlesam-s", rho=0.4)
    assert any(memory.is_new for memory in history[1][1])
    for server, memories in history:
        mean = sum(memory["c_k"].double() for memory in memories if not memory.is_new) / 5
        torch.testing.assert_close(server.state["c"], mean, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(compute, weight_decay):
    setting = Setting(compute=compute, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_sharply(setting, "fedlesam-s", rho=0.5)


def test_statistics_of_batch_norm_see_each_batch_once():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "fedlesam-s", rho=0.5)


def test_its_costs():
    check_costs("fedlesam-s", passes=1, operations=(1, 2), server=2, down=1, up=1, keeps=2)
    attaching = FedLesamS().attaching(COST)
    assert attaching.flops == 2 * 8 * 10 + 10 * 10
    assert (attaching.formula, attaching.communication) == ("2(K+1)|w| + (K+3)|w|", "2|w|")
    assert (FedLesamS().rho, FedLesamS.momentum) == (0.1, 0.0)


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_bad_options_are_refused(value):
    check_refused("fedlesam-s", "rho", value)


def test_an_optimizer_with_other_steps_is_refused():
    with pytest.raises(UserError, match="does not fit method 'fedlesam-s'"):
        fedtrip.run(fedtrip.Experiment(method="fedlesam-s", optimizer="adam"), workers=1)


def fails():
    with pytest.raises(AssertionError):
        test_three_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0)


def test_control_variates_times_a_tenth_are_caught(monkeypatch):
    # The official code's: the weight of another method's proximal term.
    monkeypatch.setattr(fedlesam_s, "Affine", lambda a, c: Affine(a, 0.1 * c))
    fails()
    with pytest.raises(AssertionError):
        test_the_step_is_autograds_of_the_written_objective()


@pytest.mark.parametrize("wrong", ["control taken beside w_k only for newcomers", "no way uphill"])
def test_other_wrong_variants_are_caught(wrong, monkeypatch):
    right = _sharpness.train_beside

    def train_beside(rho, received, memory, local, correction=None):
        if wrong == "no way uphill":
            return local.train(received, correction)
        return right(rho, received, memory, local, correction if memory.is_new else None)

    monkeypatch.setattr(fedlesam_s, "train_beside", train_beside)
    fails()
