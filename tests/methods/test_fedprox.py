"""FedProx: step g + μ(w_k − w), the gradient of F_k + (μ/2)‖w_k − w‖²."""

import pytest
import torch
from tests.reference.naive import assert_follows
from tests.reference.quadratic import added, correction_of, gradient_of, play, vectors, w_of
from tests.reference.setting import Setting

from fedtrip.methods.fedprox import FedProx
from fedtrip.methods.interface import Memory


def test_two_rounds_by_hand():
    # μ = ½ and rate ½: a step is w ← w/4 + b/2 + w_glob/4. Round 1 from 0: client 0 (b 4) goes 2, 2.5; client 1
    # (b 8) 4, 5; (2.5 + 15)/4 = 4.375. Round 2: client 0 goes 4.1875, 4.140625; client 2 (b −4) 0.1875, −0.859375;
    # (4.140625 − 1.71875)/3.
    history = play(FedProx(mu=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert w_of(history) == [[4.375], [pytest.approx(2.421875 / 3, rel=1e-6)]]


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_the_correction_is_the_gradient_of_the_written_term(mu):
    w, w_k, initial = vectors(3)
    correction = correction_of(FedProx(mu=mu), {"w": w}, Memory(), round_number=2, initial=initial)
    wanted = gradient_of(lambda v: mu / 2 * (v - w).square().sum(), w_k)
    torch.testing.assert_close(added(correction, w_k), wanted, rtol=1e-5, atol=1e-5)


def test_the_term_is_zero_at_the_global_model_and_grows_with_the_distance():
    w, w_k, initial = vectors(3)
    correction = correction_of(FedProx(mu=0.7), {"w": w}, Memory(), round_number=1, initial=initial)
    assert added(correction, w).abs().max() < 1e-6
    once, twice = added(correction, w_k), added(correction, w + 2 * (w_k - w))
    torch.testing.assert_close(twice, 2 * once, rtol=1e-4, atol=1e-5)  # a plain norm would not grow


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("epochs", [1, 3])
def test_runs_like_the_reference(momentum, epochs):
    # Several epochs: the anchor stays the round's.
    assert_follows(Setting(momentum=momentum, local_epochs=epochs), "fedprox", mu=0.8)
