"""Gaussian noise in place of an upload (as in Ditto's experiments, Li et al., 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.attacks._hostile import Hostile, Share
from fedtrip.attacks.interface import View
from fedtrip.randomness import normals
from fedtrip.vectors import total


@dataclass(frozen=True)
class Gaussian(Hostile):
    """Δ' ~ N(0, (s·σ)²) in every coordinate, σ the standard deviation of Δ_k's entries"""

    title = "attackers send noise as large as what they computed (Li et al., 2021)"
    parameter = "share"
    second_parameter = "scale"
    crafts = True

    share: Share
    """share of the clients that attack: a fixed set drawn from the seed"""
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """s, how many times as large the noise is"""

    def crafted(self, own: Tensor, view: View, rng: np.random.Generator) -> Tensor:
        return self.scale * deviation(own) * torch.from_numpy(normals(rng, own.numel())).reshape(own.shape)


def deviation(x: Tensor) -> float:
    """√(Σ(x_i − x̄)²/n), over all entries."""
    count = x.numel() or 1
    apart = x - total(x) / count
    return math.sqrt(total(apart * apart) / count)
