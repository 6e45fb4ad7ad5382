"""Sign flip: attackers pull the other way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.attacks._hostile import Hostile, Share
from fedtrip.attacks.interface import View


@dataclass(frozen=True)
class SignFlip(Hostile):
    """Δ' = −s·Δ_k: an attacker sends the opposite of what it computed"""

    title = "attackers send the opposite of what they computed"
    parameter = "share"
    second_parameter = "scale"
    crafts = True

    share: Share
    """share of the clients that attack: a fixed set drawn from the seed"""
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """s, how many times as long it is"""

    def crafted(self, own: Tensor, view: View, rng: np.random.Generator) -> Tensor:
        return -self.scale * own
