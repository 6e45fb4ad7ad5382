"""FedLESAM: step ∇f(w_k + e), e = ρ(w_prev − w)/(‖w_prev − w‖ + 1e-7), w_prev what the client received last time."""

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
    keeping,
    looks_from,
    on_the_ray,
    play_on_a_ray,
    settings,
    slope,
    uphill,
)

from fedtrip.methods import _sharpness
from fedtrip.methods.fedlesam import FedLesam
from fedtrip.methods.interface import Memory, Reply


def test_three_rounds_by_hand():
    # ρ = 1, η = ½, on a ray: a step is r ← (r + b − e)/2. Round 1 from 0, all new, e = 0: client 0 (b 5) 2.5, 3.75;
    # client 1 (b 10) 5, 7.5; w = 5.625 (uniform). Round 2: client 0 has w_prev = 0, so e = −1: 5.8125, 5.90625; client
    # 2 (b −5) is new: 0.3125, −2.34375; w = 1.78125. Round 3: client 0 has w_prev = 5.625, e = 1: 2.890625, 3.4453125;
    # client 1 has w_prev = 0, of round 1, so e = −1 though the server's last step was the other way: 6.390625,
    # 8.6953125. w = 6.0703125.
    found, history = play_on_a_ray(FedLesam(rho=1.0), [5, 10, -5], [(0, 1), (0, 2), (0, 1)])
    assert found == pytest.approx([5.625, 1.78125, 6.0703125], rel=1e-5)
    kept = {k: on_the_ray(memory["w_prev"]) for k, memory in history[-1][1].items()}
    assert kept == pytest.approx({0: 1.78125, 1: 1.78125, 2: 5.625}, rel=1e-5)


@pytest.mark.parametrize("rho", [0.05, 2.0])
def test_the_step_is_autograds_gradient_where_the_server_came_from(rho):
    w, w_k, w_prev = vectors(3)
    direction = direction_of(FedLesam(rho=rho), {"w": w}, keeping(w_prev=w_prev))
    e = uphill(rho, w_prev.double() - w.double())
    for step, at in enumerate((w_k, w)):  # one e for all steps
        h = direction.at(at.clone(), looks_from(at), step)
        torch.testing.assert_close(h, gradient_of(lambda v: bowl(v + e), at), rtol=1e-4, atol=1e-5)
        assert (h - slope(at)).norm() > 0.01
    assert float(direction.e.norm()) == pytest.approx(rho, rel=1e-6)


def test_a_server_that_has_not_moved_leaves_it_at_w_k():
    w = vectors(1)[0]
    assert direction_of(FedLesam(), {"w": w}, keeping(w_prev=w.clone())).e.tolist() == [0.0] * len(w)
    assert direction_of(FedLesam(), {"w": w}, Memory()) is None  # a newcomer's steps are plain


@settings
def test_without_a_way_uphill_it_is_fedavg_to_the_bit(setting):
    assert bits(setting, "fedlesam", rho=0.0) == bits(setting, UniformFedAvg()) != bits(setting, "fedlesam", rho=0.1)


@settings
def test_a_clients_first_round_is_fedavgs_to_the_bit(setting):
    first = setting.but(rounds=1, per_round=5)
    assert bits(first, "fedlesam", rho=3.0) == bits(first, UniformFedAvg())


@pytest.mark.parametrize("compute", ["native", "torch"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.0, 0.05), (0.9, 0.05)])
def test_runs_like_the_reference(compute, momentum, weight_decay):
    setting = Setting(compute=compute, momentum=momentum, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_sharply(setting, "fedlesam", rho=0.5)


def test_statistics_of_batch_norm_see_each_batch_once():
    assert_follows_sharply(normalised(rounds=4, weight_decay=0.02), "fedlesam", rho=0.5)


def test_its_costs():
    check_costs("fedlesam", passes=1, operations=(0, 1), keeps=1)
    attaching = FedLesam().attaching(COST)
    assert (attaching.flops, attaching.formula, attaching.communication) == (10 * 10, "(K+3)|w|", "0")
    assert (FedLesam().rho, FedLesam.momentum) == (0.1, 0.0)


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_bad_options_are_refused(value):
    check_refused("fedlesam", "rho", value)


def by_one_number(rho, v):
    """The official code's: all of a tensor is shifted by the number that has the tensor's place in the flat vector."""
    return torch.full_like(v, float(v[0])) * (rho / (float(v[0].abs()) + 1e-7))


@pytest.mark.parametrize("wrong", ["by one number", "downhill", "not of length ρ"])
def test_wrong_ways_uphill_are_caught(wrong, monkeypatch):
    variants = {"by one number": by_one_number, "downhill": lambda rho, v: -uphill(rho, v).float()}
    monkeypatch.setattr(_sharpness, "of_length", variants.get(wrong, lambda rho, v: rho * v))
    with pytest.raises(AssertionError):
        test_three_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_the_step_is_autograds_gradient_where_the_server_came_from(0.05)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, 0.0)


@pytest.mark.parametrize("wrong", ["the server's last step, for all clients", "the client's own last model"])
def test_another_previous_model_is_caught(wrong, monkeypatch):
    sent = {}

    def client(self, received, memory, local):
        sent[local.round] = received["w"]
        if local.round > 1 and "server" in wrong:
            memory = Memory({"w_prev": sent[local.round - 1]}, last_round=1)
        trained = _sharpness.train_beside(self.rho, received, memory, local)
        return Reply(upload=trained, keep={"w_prev": received["w"] if "server" in wrong else trained["w"]})

    monkeypatch.setattr(FedLesam, "client", client)
    with pytest.raises(AssertionError):
        test_three_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("native", 0.0, 0.0)
