"""Label flip: attackers train on wrong labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedtrip.attacks._hostile import Hostile, Share
from fedtrip.attacks.interface import Samples
from fedtrip.inputs import Inputs


@dataclass(frozen=True)
class LabelFlip(Hostile):
    """y' = C − 1 − y: an attacker trains on its samples with these labels, and sends what comes of it"""

    title = "attackers train with the classes in reverse order"
    parameter = "share"
    poisons = True

    share: Share
    """share of the clients that attack: a fixed set drawn from the seed"""

    def poisoned(self, samples: Samples, rng: np.random.Generator) -> tuple[Inputs, Tensor]:
        return samples.x, samples.classes - 1 - samples.y
