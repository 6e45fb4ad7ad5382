"""Local optimizers on the flat vector: against torch's own, the coupling of weight decay, `travel`, and clipping."""

import math

import pytest
import torch

from fedtrip.errors import UserError
from fedtrip.families import OPTIMIZER
from fedtrip.optimizers._clip import read_clip


def steps(rule, w, gradients, lr=0.1, linear=0.0, decay=0.0):
    optimizer = OPTIMIZER.make(rule)
    w = w.clone()
    state = optimizer.start(w)
    for gradient in gradients:
        optimizer.step(w, gradient.clone(), state, lr=lr, linear=linear, decay=decay)
    return w


def torchs(kind, w, gradients, linear=0.0, **options):
    parameter = torch.nn.Parameter(w.clone())
    optimizer = kind([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient + linear * parameter.detach()
        optimizer.step()
    return parameter.detach()


W = torch.tensor([1.0, -2.0, 3.0])
GRADIENTS = [torch.tensor([0.5, 0.1, -0.2]), torch.tensor([-0.3, 0.2, 0.4]), torch.tensor([0.1, 0.1, 0.1])]


@pytest.mark.parametrize("linear", [0.0, 0.3])
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_against_torchs_own(linear, decay):
    assert torch.allclose(
        steps({"name": "sgd", "momentum": 0.9}, W, GRADIENTS, linear=linear, decay=decay),
        torchs(torch.optim.SGD, W, GRADIENTS, linear, lr=0.1, momentum=0.9, weight_decay=decay),
    )
    assert torch.allclose(
        steps("adam", W, GRADIENTS, linear=linear, decay=decay),
        torchs(torch.optim.Adam, W, GRADIENTS, linear, lr=0.1, weight_decay=decay),
        rtol=1e-5,
    )


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_adamw_decouples_the_decay_but_not_a_correction(decay):
    assert torch.allclose(
        steps("adamw", W, GRADIENTS, decay=decay),
        torchs(torch.optim.AdamW, W, GRADIENTS, lr=0.1, weight_decay=decay),
        rtol=1e-5,
    )
    # the first step of Adam is η·sign(h): a correction that turns h's sign turns the step, a decay does not
    one = [torch.tensor([0.1, 0.1, 0.1])]
    moved = steps("adamw", W, one, linear=0.5) - W
    assert torch.allclose(moved, -0.1 * (one[0] + 0.5 * W).sign(), rtol=1e-4)


def test_travel_is_what_steps_on_a_constant_gradient_go():
    one = torch.ones(1)
    for rule in ({"name": "sgd", "momentum": 0.9}, {"name": "sgd", "momentum": 0.0}):
        gone = -float(steps(rule, torch.zeros(1), [one] * 7))
        assert OPTIMIZER.make(rule).travel(0.1, 7, kept=False) == pytest.approx(gone, rel=1e-6)
    assert OPTIMIZER.make({"name": "sgd", "momentum": 0.9}).travel(0.1, 7, kept=True) == pytest.approx(7.0)
    assert OPTIMIZER.make("adam").travel(0.1, 7, kept=False) is None


def test_clipping_cuts_to_the_bound_and_leaves_what_is_shorter():
    clip = read_clip("5")
    long, short = torch.tensor([6.0, 8.0]), torch.tensor([0.3, 0.4])
    clip.cut(long)
    clip.cut(short)
    assert long.tolist() == pytest.approx([3.0, 4.0])
    assert short.tolist() == pytest.approx([0.3, 0.4])
    assert (clip.bound, clip.of) == (5.0, "step")
    assert read_clip("gradient:10").of == "gradient"


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "much", "weights:3", "", "gradient:"])
def test_a_clip_that_cannot_be_is_refused(text):
    with pytest.raises(UserError, match="clip is"):
        read_clip(text)


def test_the_first_adam_step_has_the_length_of_the_rate():
    moved = steps("adam", torch.zeros(2), [torch.tensor([1e-3, -7.0])], lr=0.5)
    assert moved.tolist() == pytest.approx([-0.5, 0.5], rel=1e-4)
    assert not math.isnan(float(steps("adam", torch.zeros(1), [torch.zeros(1)])))
