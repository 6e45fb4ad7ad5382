"""A convolution of few channels and the 2×2 max-pooling behind it, faster where no gradient is asked for.

With six output channels most lanes of a processor's vectors are idle. The four places that one pool looks at are four
shifts of one kernel: as four times the channels with stride 2 they fill the lanes, and pooling is the maximum of four
contiguous blocks. The products and the order of their sums stay the same, and so do the bits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedtrip.training.pooling import max_pool_2x2

MOST_INPUT_CHANNELS, MOST_OUTPUT_CHANNELS = 3, 15
"""Beyond these, measured on LeNet-like first layers, the kernels of the ordinary way are as fast or faster."""


class FewChannelConvPool(nn.Conv2d):
    """`nn.Conv2d` with stride 1 and `nn.MaxPool2d(2)` behind it."""

    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return max_pool_2x2(super().forward(input))
        shifts = [(down, right) for down in (0, 1) for right in (0, 1)]
        kernels = [functional.pad(self.weight, (right, 1 - right, down, 1 - down)) for down, right in shifts]
        bias = None if self.bias is None else self.bias.repeat(4)
        places = functional.conv2d(input, torch.cat(kernels), bias, stride=2, padding=self.padding)
        upper, lower = places.chunk(2, dim=1)
        left, right = torch.maximum(upper, lower).chunk(2, dim=1)
        return torch.maximum(left, right)


def is_few_channel_convolution(layer: nn.Module) -> bool:
    """Whether a layer is a convolution that gains from being done with the pooling behind it."""
    return (
        type(layer) is nn.Conv2d
        and layer.in_channels <= MOST_INPUT_CHANNELS
        and layer.out_channels <= MOST_OUTPUT_CHANNELS
        and (layer.stride, layer.dilation, layer.groups) == ((1, 1), (1, 1), 1)
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and min(layer.kernel_size) > 1
    )
