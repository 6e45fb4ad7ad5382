"""What is not finite passes through as in torch: a divergence must be seen. Each was a fault of the prototype."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from fedtrip.models.chain import trace_chain
from fedtrip.native.chain import Mode, NativeChain
from fedtrip.native.library import usable_kernels, using

KERNELS = usable_kernels()


def made(module: nn.Module, shape: tuple[int, ...], kernels: str) -> tuple[NativeChain, Tensor]:
    chain = trace_chain(module, shape)
    with using(kernels):
        return chain.native(), chain.weights_of(module)


def convolution_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * 4 * 4, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip


@pytest.mark.parametrize("kernels", KERNELS)
def test_nan_passes_relu_and_pooling(kernels: str) -> None:
    module, x = convolution_net(), torch.randn(5, 1, 12, 12)
    x[2, 0, 5, 5] = math.nan
    native, w = made(module, (1, 12, 12), kernels)
    outputs, _ = native.forward(w, x)
    assert torch.isnan(outputs).any(dim=1).tolist() == [False, False, True, False, False]
    assert torch.equal(torch.isnan(outputs), torch.isnan(module(x)))


@pytest.mark.parametrize("kernels", KERNELS)
def test_the_gradient_of_a_batch_with_nan_is_nan(kernels: str) -> None:
    module, x = convolution_net(), torch.randn(5, 1, 12, 12)
    x[2, 0, 5, 5] = math.nan
    native, w = made(module, (1, 12, 12), kernels)
    outputs, _ = native.forward(w, x, mode=Mode.KEPT)
    g = torch.zeros_like(w)
    native.backward(native.softmax_gradient(outputs, torch.zeros(5, dtype=torch.int64), None, 0.2), None, g)
    assert bool(torch.isnan(g[-3:]).all())  # the last biases


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("samples", [1, 5, 9, 50])
def test_an_infinity_beside_the_last_lanes_does_not_touch_a_gradient(kernels: str, samples: int) -> None:
    """The last column of the image is no part of any place of the output: no gradient must see it."""
    module = nn.Sequential(nn.Conv2d(1, 2, (1, 2), stride=(1, 2)), nn.Flatten(), nn.Linear(2 * 3 * 2, 2))
    x = torch.randn(samples, 1, 3, 5)
    x[:, :, :, 4] = math.inf
    native, w = made(module, (1, 3, 5), kernels)
    outputs, _ = native.forward(w, x, mode=Mode.KEPT)
    g = torch.zeros_like(w)
    native.backward(torch.ones_like(outputs), None, g)
    assert bool(torch.isfinite(outputs).all())
    assert bool(torch.isfinite(g).all())


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_later_sample_does_not_touch_an_earlier_one(kernels: str) -> None:
    """Vectors hold several samples: what is infinite in one must not reach another."""
    module, x = convolution_net(), torch.randn(19, 1, 12, 12)
    native, w = made(module, (1, 12, 12), kernels)
    clean, _ = native.forward(w, x)
    x[18] = math.inf
    spoilt, _ = native.forward(w, x)
    assert torch.equal(clean[:18], spoilt[:18])


@pytest.mark.parametrize("kernels", KERNELS)
def test_of_equals_in_a_window_the_first_gets_the_gradient(kernels: str) -> None:
    """dW = Σ dy·x over the largest places: of the two 3s only the first: dW = 3, not 6. None of a dead window."""
    module = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2, 1, bias=False)
    )  # fmt: skip
    with torch.no_grad():
        module[0].weight.fill_(1.0)
        module[4].weight.fill_(1.0)
    native, w = made(module, (1, 2, 4), kernels)
    x = torch.tensor([[[[3.0, 1.0, -1.0, -2.0], [3.0, 2.0, 0.0, -4.0]]]])
    outputs, _ = native.forward(w, x, mode=Mode.KEPT)
    g = torch.zeros_like(w)
    native.backward(torch.ones(1, 1), None, g)
    assert outputs.tolist() == [[3.0]]
    assert g[0].item() == 3.0
