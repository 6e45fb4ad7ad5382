"""A convolution of few channels with its pooling gives the same numbers with and without gradients."""

import pytest
import torch
from torch import nn

from fedtrip.training.accelerate import accelerate
from fedtrip.training.conv_pool import FewChannelConvPool

CHANGE = "1 × convolution and pooling in one"


def layers(convolution, *between):
    return nn.Sequential(convolution, *between, nn.MaxPool2d(2))


def accelerated(module, shape, watched=None):
    torch.manual_seed(0)
    return accelerate(module, shape, watched)


@pytest.mark.parametrize(
    ("channels", "kernel", "padding", "height", "width", "bias"),
    [
        (1, 5, 2, 28, 28, True),
        (3, 5, 0, 32, 32, True),
        (1, 3, 1, 9, 12, False),
        (2, (2, 4), (0, 1), 7, 11, True),
        (3, (2, 3), (1, 2), 6, 5, True),
    ],
)
def test_outputs_without_gradient_are_those_of_the_two_layers(channels, kernel, padding, height, width, bias):
    torch.manual_seed(0)
    plain = layers(nn.Conv2d(channels, 6, kernel, padding=padding, bias=bias), nn.ReLU())
    fast = accelerated(plain, (channels, height, width))
    assert CHANGE in fast.changes
    x = torch.randn(7, channels, height, width)
    with torch.no_grad():
        torch.testing.assert_close(fast.module(x), plain(x), rtol=1e-6, atol=1e-6)
    expected, got = plain(x), fast.module(x)
    torch.testing.assert_close(got, expected)
    expected.square().sum().backward()
    got.square().sum().backward()
    for ours, theirs in zip(fast.module.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(4, 6, 3),
        nn.Conv2d(1, 16, 3),
        nn.Conv2d(1, 6, 1),
        nn.Conv2d(1, 6, 3, stride=2),
        nn.Conv2d(1, 6, 3, dilation=2),
        nn.Conv2d(2, 6, 3, groups=2),
        nn.Conv2d(1, 6, 3, padding="same"),
        nn.Conv2d(1, 6, 3, padding=1, padding_mode="reflect"),
    ],
    ids=str,
)
def test_other_convolutions_are_left_alone(convolution):
    changes = accelerated(layers(convolution), (convolution.in_channels, 12, 12)).changes
    assert not any("convolution and pooling" in change for change in changes)


def test_a_convolution_somebody_looks_at_is_left_alone():
    module = layers(nn.Conv2d(1, 6, 3), nn.ReLU())
    assert CHANGE in accelerated(module, (1, 12, 12)).changes
    assert CHANGE not in accelerated(module, (1, 12, 12), watched="0").changes
    module[0].register_forward_hook(lambda *_: None)
    assert CHANGE not in accelerated(module, (1, 12, 12)).changes


def test_the_users_module_keeps_its_layers():
    module = layers(nn.Conv2d(1, 6, 3))
    assert isinstance(accelerated(module, (1, 12, 12)).module[0], FewChannelConvPool)
    assert [type(layer) for layer in module] == [nn.Conv2d, nn.MaxPool2d]
