"""The paper's convolutional network, a LeNet-5 with ReLU and a third convolution in place of its first FC layer."""

from __future__ import annotations

from torch import nn

from fedtrip.models.image import check_image_shape

SMALLEST_SIDE = 28  # 28 → pool 14 → conv 10 → pool 5 → conv 1


class CNN(nn.Sequential):
    """Three 5×5 convolutions (6 padded by 2, 16, 120), ReLU after each, 2×2 max-pools after two; FC 84, ReLU; FC.

    With 28×28 grey images and 10 classes 61,706 parameters and 416,520 MACs a sample. Larger images leave more than
    one place after the last convolution, and FC 84 takes them all.
    """

    title = "LeNet-5 with ReLU: three convolutions, two fully connected layers; images from 28×28"

    def __init__(self, sample_shape: tuple[int, ...], classes: int) -> None:
        channels, height, width = check_image_shape("cnn", sample_shape, SMALLEST_SIDE)
        places = _side_after_convolutions(height) * _side_after_convolutions(width)
        super().__init__(
            nn.Conv2d(channels, 6, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 120, kernel_size=5),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(120 * places, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )


def _side_after_convolutions(side: int) -> int:
    """((side/2 − 4)/2 − 4), rounding down at each pool."""
    return (side // 2 - 4) // 2 - 4
