"""ResNet-18 for small images with GroupNorm of two groups."""

from __future__ import annotations

from fedtrip.models.residual import ResNet, group_norm


class ResNet18(ResNet):
    """Four stages of two blocks, 64 to 512 channels. With 32×32 colour images and 10 classes 11,173,962 parameters."""

    title = "ResNet-18 for small images with GroupNorm: four stages of two blocks, 64 to 512 channels"

    def __init__(self, sample_shape: tuple[int, ...], classes: int) -> None:
        super().__init__("resnet18", sample_shape, classes, widths=(64, 128, 256, 512), blocks=2, norm=group_norm)
