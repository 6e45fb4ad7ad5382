"""Inputs as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedtrip.augmentations.interface import Augment
from fedtrip.inputs import Inputs


@dataclass(frozen=True)
class NoAugment(Augment):
    """x, unchanged"""

    title = "training batches as they are"

    def __call__(self, x: Inputs, rng: np.random.Generator) -> Inputs:
        return x
