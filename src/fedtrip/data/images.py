"""Pictures of Pillow as arrays; Pillow is not imported for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtrip.errors import UserError

CHANNELS = {"L": 1, "RGB": 3}


def is_image(value: object) -> bool:
    """Whether it is a picture of Pillow."""
    return hasattr(value, "getbands") and hasattr(value, "mode") and hasattr(value, "size")


def pixels_of(name: str, image: Any) -> NDArray[np.uint8]:
    """Its pixels, uint8 (channels, height, width)."""
    if image.mode not in CHANNELS:
        raise UserError(
            f"{name} is a picture of mode {image.mode}; accepted: {' and '.join(CHANNELS)}; convert it before"
        )
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
