"""IPM, inner-product manipulation (Xie et al., 2019): the combined step is to point away from the honest mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from fedtrip.attacks._hostile import Hostile, Share, honest_mean
from fedtrip.attacks.interface import View


@dataclass(frozen=True)
class Ipm(Hostile):
    """Δ' = −ε·(mean of the honest Δ): all attackers send it; 0.1 is subtle, above (|S|−m)/m the mean is turned round"""

    title = "attackers send the opposite of the honest mean (IPM, Xie et al., 2019)"
    parameter = "share"
    second_parameter = "epsilon"
    crafts = True
    colludes = True

    share: Share
    """share of the clients that attack: a fixed set drawn from the seed"""
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    """ε, how many times as long it is"""

    def crafted(self, own: Tensor, view: View, rng: np.random.Generator) -> Tensor:
        return -self.epsilon * honest_mean(view.honest)
