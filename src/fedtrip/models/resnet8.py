"""ResNet-8 with GroupNorm of two groups."""

from __future__ import annotations

from fedtrip.models.residual import ResNet, group_norm


class ResNet8(ResNet):
    """Three stages of one block, 16, 32 and 64 channels. With 32×32 colour images and 10 classes 78,042 parameters."""

    title = "ResNet-8 with GroupNorm: three stages of one block, 16 to 64 channels"

    def __init__(self, sample_shape: tuple[int, ...], classes: int) -> None:
        super().__init__("resnet8", sample_shape, classes, widths=(16, 32, 64), blocks=1, norm=group_norm)
