"""The convolutional network of McMahan et al. (2017), the FedAvg paper."""

from __future__ import annotations

from torch import nn

from fedtrip.models.image import check_image_shape

SMALLEST_SIDE = 4  # 4 → pool 2 → pool 1


class McMahanCNN(nn.Sequential):
    """Two 5×5 convolutions (32 and 64, padded by 2), each with ReLU and a 2×2 max-pool; FC 512, ReLU; FC.

    With 28×28 grey images and 10 classes 1,663,370 parameters and 12,273,152 MACs a sample.
    """

    title = "McMahan's CNN: two convolutions, two fully connected layers; images from 4×4"

    def __init__(self, sample_shape: tuple[int, ...], classes: int) -> None:
        channels, height, width = check_image_shape("cnn-mcmahan", sample_shape, SMALLEST_SIDE)
        super().__init__(
            nn.Conv2d(channels, 32, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 512),
            nn.ReLU(),
            nn.Linear(512, classes),
        )
