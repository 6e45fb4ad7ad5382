"""The engine's scalar functions: e^x, log x, tanh, Philox and the step of SGD, by known values and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedtrip.models.chain import trace_chain
from fedtrip.native.chain import Mode
from fedtrip.native.chain import Sgd as Steps
from fedtrip.native.library import library, usable_kernels, using


def applied(function: str, x: np.ndarray) -> np.ndarray:
    found, y = library(), np.empty_like(x)
    assert found is not None
    getattr(found, function)(x.ctypes.data, len(x), y.ctypes.data)
    return y


@pytest.mark.parametrize("kernels", usable_kernels())
def test_exp_is_within_two_units_of_the_last_place(kernels: str) -> None:
    x = np.linspace(-87.3, 88.7, 100_003).astype(np.float32)
    with using(kernels):
        y = applied("fedtrip_exp", x)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(y - exact).max() > 0  # it is float32, and not the same function
    assert (np.abs(y.astype(np.float64) - exact) <= 2 * np.spacing(exact.astype(np.float32))).all()


def test_exp_of_what_is_far_out() -> None:
    x = np.array([0.0, -0.0, -88.0, -math.inf, 89.0, math.inf, math.nan, -1000.0], dtype=np.float32)
    y = applied("fedtrip_exp", x).tolist()
    assert y[:6] == [1.0, 1.0, 0.0, 0.0, math.inf, math.inf]
    assert math.isnan(y[6])
    assert y[7] == 0.0


@pytest.mark.parametrize("kernels", usable_kernels())
def test_log_is_right_to_half_a_unit_and_a_little(kernels: str) -> None:
    x = np.concatenate([np.geomspace(1e-45, 3e38, 100_003), np.linspace(0.5, 2, 50_001)]).astype(np.float32)
    with using(kernels):
        y = applied("fedtrip_log", x)
    exact = np.log(x.astype(np.float64))
    assert (np.abs(y - exact) <= 0.5001 * np.spacing(np.abs(exact).astype(np.float32)) + 1e-45).all()


def test_log_of_what_is_no_positive_number() -> None:
    y = applied("fedtrip_log", np.array([1.0, 0.0, -0.0, math.inf, -1.0, math.nan], dtype=np.float32)).tolist()
    assert y[:4] == [0.0, -math.inf, -math.inf, math.inf]
    assert all(map(math.isnan, y[4:]))


@pytest.mark.parametrize("kernels", usable_kernels())
def test_tanh_is_within_three_units_of_the_last_place(kernels: str) -> None:
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        module[0].weight.fill_(1.0)
        module[2].weight.fill_(1.0)
    chain = trace_chain(module, (1,))
    x = torch.cat([torch.linspace(-12, 12, 40_001), torch.tensor([1e-30, -1e-30, 0.625, math.inf, -math.inf])])
    with using(kernels):
        y, _ = chain.native().forward(chain.weights_of(module), x[:, None].contiguous())
    exact = np.tanh(x.double().numpy())
    assert (np.abs(y[:, 0].double().numpy() - exact) <= 3 * np.spacing(np.abs(exact).astype(np.float32))).all()


ZERO_COUNTER = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
"""Philox4x32-10 of counter 0 under key 0: the published test vector of Random123."""


@pytest.mark.parametrize("kernels", usable_kernels())
def test_the_masks_of_dropout_are_those_of_philox(kernels: str) -> None:
    """In the first step, under key 0, the four features of the first sample have the words of the test vector."""
    for word, place in zip(ZERO_COUNTER, range(4), strict=True):
        for p, kept in (((word - 1) / 2**32, True), ((word + 1) / 2**32, False)):
            module = nn.Sequential(nn.Dropout(p), nn.Linear(4, 1, bias=False))
            chain = trace_chain(module, (4,))
            w = torch.zeros(4)
            w[place] = 1.0
            with using(kernels):
                y, _ = chain.native().forward(w, torch.full((1, 4), 2.0), mode=Mode.TRAINING, key=0, step=0)
            assert float(y) == (pytest.approx(2 / (1 - p), rel=1e-6) if kept else 0.0)


def test_dropout_is_a_function_of_key_step_layer_and_element() -> None:
    dropout = (nn.Dropout(0.25), nn.Dropout(0.25))
    module = nn.Sequential(nn.Linear(300, 300, bias=False), *dropout, nn.Linear(300, 300, bias=False))
    with torch.no_grad():
        for layer in (module[0], module[3]):
            layer.weight.copy_(torch.eye(300))
    chain = trace_chain(module, (300,))
    native, w, x = chain.native(), chain.weights_of(module), torch.ones(40, 300)
    first, again, other_key, other_step = (
        native.forward(w, x, mode=Mode.TRAINING, key=key, step=step)[0]
        for key, step in ((1, 0), (1, 0), (2, 0), (1, 1))
    )
    assert torch.equal(first, again)
    share = float((first > 0).float().mean())
    assert share == pytest.approx(0.75**2, abs=0.02)  # two layers that draw apart, or it were 0.75
    assert float((first == other_key).float().mean()) < 0.8
    assert float((first == other_step).float().mean()) < 0.8
    assert first.unique().tolist() == pytest.approx([0.0, 16 / 9])
    evaluated, _ = native.forward(w, x)
    assert torch.equal(evaluated, x)


def test_a_step_of_sgd_by_hand() -> None:
    """g = 1, c = 0.5, a = 2, w = 3, m = 4, β = 0.5, η = 0.1: h = 7.5; m = 9.5; w = 2.05."""
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    chain = trace_chain(module, (1,))
    w, m, g, c = (torch.full((2,), value) for value in (3.0, 4.0, 1.0, 0.5))
    chain.native().sgd_step(w, m, g, Steps(0.1, 0.5, 2.0, c))
    assert m.tolist() == [9.5, 9.5]
    assert w.tolist() == pytest.approx([2.05, 2.05], abs=1e-6)


def test_a_step_outside_a_training_has_the_bits_of_one_inside() -> None:
    torch.manual_seed(3)
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 4))
    chain = trace_chain(module, (3, 4, 1))
    native, x, y = chain.native(), torch.randn(10, 3, 4, 1), torch.randint(4, (10,))
    inside, c = chain.weights_of(module), 0.1 * torch.randn(chain.parameters)
    outside, m, n = inside.clone(), torch.zeros_like(inside), torch.zeros_like(inside)
    steps = Steps(0.1, 0.9, 0.3, c)
    native.train(inside, m, x, y, torch.arange(10)[None], 5, steps, key=0)
    for number, rows in enumerate(torch.split(torch.arange(10), 5)):
        outputs, _ = native.forward(outside, x, rows.contiguous(), mode=Mode.TRAINING, step=number)
        g = torch.empty_like(outside)
        native.backward(native.softmax_gradient(outputs, y, rows.contiguous(), 1 / 5), None, g)
        native.sgd_step(outside, n, g, steps)
    assert torch.equal(inside, outside)
    assert torch.equal(m, n)
