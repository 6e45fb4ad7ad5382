"""What the models for images share: the check of the sample shape."""

from __future__ import annotations

from fedtrip.errors import UserError


def check_image_shape(model: str, sample_shape: tuple[int, ...], smallest_side: int) -> tuple[int, int, int]:
    """(channels, height, width), or an error that names the smallest images the model takes."""
    if len(sample_shape) != 3 or sample_shape[0] < 1 or min(sample_shape[1:]) < smallest_side:
        raise UserError(
            f"model '{model}' cannot take samples of shape {tuple(sample_shape)}; accepted: "
            f"(channels, height, width) with height and width from {smallest_side}"
        )
    channels, height, width = sample_shape
    return channels, height, width
