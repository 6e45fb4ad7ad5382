"""ALIE, "a little is enough" (Baruch et al., 2019): lies that hide among the honest clients' own spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip import fixed_math
from fedtrip.attacks._hostile import Hostile, Share, honest_mean
from fedtrip.attacks.interface import View
from fedtrip.vectors import square_root


@dataclass(frozen=True)
class Alie(Hostile):
    """Δ' = mean − ζ·std of the honest Δ in every coordinate; auto: ζ = Φ⁻¹((n−m−s)/(n−m)), s = ⌊n/2+1⌋ − m

    n = |S| and m attackers of a round; the standard deviation has n − m − 1 in its denominator, and is 0 of one client.
    With few attackers `auto` is harmless: 0 at n = 10, m = 2. Where its quantile would be of 0 or less, or of 1 or
    more (attackers that are the majority), it is that of half a client from the end.

    Departs from the official code: its attackers know each other's benign uploads only, and take the population's
    deviation; ours see the honest ones, as EPFL's do, which makes them stronger.
    """

    title = "attackers hide in the spread of the honest uploads (ALIE, Baruch et al., 2019)"
    parameter = "share"
    second_parameter = "zeta"
    crafts = True
    colludes = True

    share: Share
    """share of the clients that attack: a fixed set drawn from the seed"""
    zeta: Annotated[float, Field(allow_inf_nan=False)] | Literal["auto"] = 1.5
    """ζ, how many deviations from the mean; auto: as many as the majority rule of the paper allows"""

    def crafted(self, own: Tensor, view: View, rng: np.random.Generator) -> Tensor:
        zeta = hidden_zeta(view.clients, view.attackers) if self.zeta == "auto" else self.zeta
        mean, squares = honest_mean(view.honest), torch.zeros_like(view.honest[0])
        for row in view.honest:
            apart = row - mean
            squares += apart * apart
        return mean - zeta * square_root(squares / max(len(view.honest) - 1, 1))


def hidden_zeta(n: int, m: int) -> float:
    """Φ⁻¹((n−m−s)/(n−m)), s = ⌊n/2+1⌋ − m: so far out that s honest clients, who make a majority, are farther."""
    honest, supporters = max(n - m, 1), n // 2 + 1 - m
    half = 0.5 / honest
    return quantile(min(max((honest - supporters) / honest, half), 1 - half))


@lru_cache
def quantile(p: float) -> float:
    """Φ⁻¹(p) of the normal distribution by Newton's method from 0, which nears it from one side.

    Φ(z) = ½ + φ(z)·(z + z³/3 + z⁵/15 + …), of operations that have the same bits on every CPU.
    """
    z = 0.0
    for _ in range(60):
        density = fixed_math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        term = series = z
        for odd in range(3, 401, 2):
            term *= z * z / odd
            series += term
        z -= (0.5 + density * series - p) / density
    return z
