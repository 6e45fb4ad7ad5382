"""What the residual networks share: blocks of two convolutions with a shortcut, as He et al. (2016) train on CIFAR."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fedtrip.inputs import InputSpec
from fedtrip.models.image import check_image_shape

Norm = Callable[[int], nn.Module]
"""Makes the normalisation of so many channels."""
GROUPS = 2
"""Groups of a GroupNorm, as Hsieh et al. (2020) and Reddi et al. (2021) have them in federated learning."""


def group_norm(channels: int) -> nn.Module:
    """Normalises each sample alone: no client's data are in the statistics of another's model."""
    return nn.GroupNorm(GROUPS, channels)


def batch_norm(channels: int) -> nn.Module:
    """Normalises over a batch; its running statistics are buffers, averaged over the clients."""
    return nn.BatchNorm2d(channels)


class Block(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))), the convolutions 3×3, the first with the stride.

    The shortcut is x itself, or where the shape changes a 1×1 convolution with the stride, and norm.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            norm(outputs),
        )
        self.shortcut = nn.Sequential()
        if (inputs, stride) != (outputs, 1):
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x) + self.branch(x))


class ResNet(nn.Sequential):
    """3×3 convolution, norm, ReLU, no max-pool; stages of blocks, every stage but the first at half the size; global
    average pool; FC."""

    usual_inputs = InputSpec.numbers(3, 32, 32)

    def __init__(
        self, name: str, sample_shape: tuple[int, ...], classes: int, widths: Sequence[int], blocks: int, norm: Norm
    ) -> None:
        channels, _, _ = check_image_shape(name, sample_shape, smallest_side=1)
        layers = [nn.Conv2d(channels, widths[0], 3, padding=1, bias=False), norm(widths[0]), nn.ReLU()]
        width = widths[0]
        for stage, outputs in enumerate(widths):
            for block in range(blocks):
                layers.append(Block(width, outputs, stride=2 if stage and not block else 1, norm=norm))
                width = outputs
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
