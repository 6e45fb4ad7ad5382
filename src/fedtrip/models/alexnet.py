"""The AlexNet for small colour images that the authors' framework trains on CIFAR-10."""

from __future__ import annotations

from torch import nn

from fedtrip.inputs import InputSpec
from fedtrip.models.image import check_image_shape

SMALLEST_SIDE = 10  # 10 → conv 7 → pool 3 → pool 1


class AlexNet(nn.Sequential):
    """Five convolutions with ReLU, overlapping max-pools after the first two, global average pool, two FC layers.

    With 32×32 colour images and 10 classes 2,729,290 parameters and 145,922,816 MACs a sample.
    """

    title = "AlexNet for small images: five convolutions, two fully connected layers, dropout"
    usual_inputs = InputSpec.numbers(3, 32, 32)

    def __init__(self, sample_shape: tuple[int, ...], classes: int, dropout: float = 0.5) -> None:
        channels, _, _ = check_image_shape("alexnet", sample_shape, SMALLEST_SIDE)
        super().__init__(
            nn.Conv2d(channels, 64, kernel_size=7, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(256, 1024),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(1024, classes),
        )
