"""ResNet-8 with BatchNorm."""

from __future__ import annotations

from fedtrip.models.residual import ResNet, batch_norm


class ResNet8BatchNorm(ResNet):
    """Three stages of one block, 16, 32 and 64 channels. With 32×32 colour images and 10 classes 78,042 parameters."""

    title = "ResNet-8 with BatchNorm, whose statistics are averaged too"

    def __init__(self, sample_shape: tuple[int, ...], classes: int) -> None:
        super().__init__("resnet8-bn", sample_shape, classes, widths=(16, 32, 64), blocks=1, norm=batch_norm)
