"""fedtrip-auto: FedTrip's step with ξ = e + (1 − e)/gap, e = exp(−(t − 1)/τ), and μ = push/travel."""

import math

import pytest
import torch
from tests.reference.naive import apart, assert_follows, gaps, run_naive
from tests.reference.quadratic import QuadraticLocal, added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.fedtrip_auto import FedTripAuto
from fedtrip.methods.interface import Memory, make_method
from fedtrip.registry import options_of


def test_two_rounds_by_hand():
    # Rate ½, two steps, no momentum: a gradient of one is followed 1 far, so a push of ¼ makes μ = ¼.
    # Round 1, new: w ← w + ½(8 − w − ¼w): 4, 5.5. Round 2, gap 1, ξ = 1: nothing lies between w_hist = w = 5.5:
    # w ← w/2 + 4: 6.75, 7.375. Client 1 (b −4): −2, −2.75; then ξ = 1: −3.375, −3.6875.
    method = FedTripAuto(push=0.25)
    for b, wanted in ((8.0, [5.5, 7.375]), (-4.0, [-2.75, -3.6875])):
        history = play(method, b=[[b]], samples=[1], chosen=[(0,), (0,)])
        assert [w for (w,) in w_of(history)] == pytest.approx(wanted)
    # Two clients: w = (5.5 − 2.75)/2 = 1.375, and the term is the constant ¼(w_hist − w) = ±1.03125.
    history = play(method, b=[[8.0], [-4.0]], samples=[1, 1], chosen=[(0, 1), (0,)])
    first = 1.375 / 2 + 4 - 1.03125 / 2
    assert w_of(history)[1] == pytest.approx([first / 2 + 4 - 1.03125 / 2])


@pytest.mark.parametrize(
    ("options", "xi"),
    [
        ({}, math.exp(-0.6) + (1 - math.exp(-0.6)) / 3),  # e^{−(7−1)/10}
        ({"tau": 3.0}, math.exp(-2) + (1 - math.exp(-2)) / 3),
    ],
)
def test_the_correction_is_the_gradient_of_the_written_term(options, xi):
    w, w_k, w_hist, initial = vectors(4)
    memory = Memory({"w_hist": w_hist}, last_round=4)
    correction = correction_of(FedTripAuto(push=0.06, **options), {"w": w}, memory, round_number=7, initial=initial)
    mu = 0.06 / 0.1  # one step of rate 0.1

    def term(v):
        return mu / 2 * ((v - w).square().sum() - xi * (v - w_hist).square().sum())

    torch.testing.assert_close(added(correction, w_k), gradient_of(term, w_k), rtol=1e-5, atol=1e-5)


def test_xi_goes_from_one_to_one_over_the_gap():
    rule = FedTripAuto()
    assert rule.xi(1, gap=9) == 1.0
    assert rule.xi(1000, gap=9) == pytest.approx(1 / 9)
    assert rule.xi(40, gap=1) == pytest.approx(1.0)
    course = [rule.xi(t, gap=9) for t in range(1, 50)]
    assert course == sorted(course, reverse=True)


@pytest.mark.parametrize(("steps", "lr"), [(40, 1e-4), (8, 1e-4), (40, 2e-5)])
def test_a_term_with_xi_one_pushes_a_client_as_far_as_it_says(steps, lr):
    # With so small a rate the loss does nothing, and only the term is left.
    w, w_hist, initial = vectors(3)
    local = QuadraticLocal(w.tolist(), round_number=2, lr=lr, steps=steps, initial=initial, momentum=0.9)
    reply = FedTripAuto(push=0.7).client({"w": w}, Memory({"w_hist": w_hist}, 1), local)
    torch.testing.assert_close(reply.upload["w"] - w, 0.7 * (w - w_hist), rtol=0.02, atol=1e-4)


def test_mu_is_no_option_and_the_same_for_every_model():
    for model in ("mlp", "cnn"):
        assert make_method("fedtrip-auto", {}, model=model, dataset="mnist") == FedTripAuto()
    assert options_of(FedTripAuto()) == {"push": 0.75, "tau": 10.0}
    with pytest.raises(UserError, match="option 'mu' is unknown"):
        make_method("fedtrip-auto", {"mu": 0.4}, model="mlp", dataset="mnist")


def test_an_optimizer_whose_steps_have_no_known_travel_is_refused():
    with pytest.raises(UserError, match="'adam' cannot say how far its steps go, which method 'fedtrip-auto' needs"):
        fedtrip.run(fedtrip.Experiment(method="fedtrip-auto", optimizer="adam", momentum=0.0), workers=1)


@pytest.mark.parametrize(("momentum", "kept"), [(0.0, False), (0.9, False), (0.9, True)])
@pytest.mark.parametrize("options", [{"push": 0.5}, {"push": 0.5, "tau": 2.0}], ids=str)
def test_runs_like_the_reference(momentum, kept, options):
    setting = Setting(momentum=momentum, keep_optimizer_state=kept)
    assert gaps(setting) == ({1, 2, 3, 4}, 3)  # every kind of client takes part
    assert_follows(setting, "fedtrip-auto", **options)
    model = setting.run("fedtrip-auto", **options).module.state_dict()
    assert apart(model, run_naive(setting, "fedtrip-auto", **{**options, "push": 1.0})[0]) > 1e-3
