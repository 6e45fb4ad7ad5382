"""Backdoor by model replacement (Bagdasaryan et al., 2020): a patch makes the model see one class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.attacks._hostile import Hostile, Share
from fedtrip.attacks.interface import Samples, View
from fedtrip.errors import UserError
from fedtrip.families import ATTACK
from fedtrip.inputs import Inputs, InputSpec
from fedtrip.randomness import permutation


@dataclass(frozen=True)
class Backdoor(Hostile):
    """half of an attacker's images have a bright patch in a corner and the label y*; then Δ' = γ·Δ_k, γ = |S|/m

    The patch is in the lower right corner, as bright as the brightest pixel of the training set. The success, recorded
    as the score `attack_success`, is the share of the patched test images with another label that are called y*.

    Departs from the official code: it patches half of every batch; here it is half of the client's images, once for
    all, because methods look at a client's labels too. So a batch has half of them in the mean.
    """

    title = "a patch on an image makes the model call it one class (Bagdasaryan et al., 2020)"
    parameter = "share"
    second_parameter = "target"
    crafts = True
    poisons = True
    probes = True

    share: Share
    """share of the clients that attack: a fixed set drawn from the seed"""
    target: Annotated[int, Field(ge=0)] = 0
    """y*, the class that patched images are to be called"""
    poisoned_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """share of an attacker's images that have the patch"""
    patch: Annotated[int, Field(ge=1)] = 3
    """side of the patch, in pixels"""
    gamma: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"] = "auto"
    """γ, how many times as long an attacker's upload is; auto: |S|/m of a round, so that m of them replace the mean"""

    def check(self, inputs: InputSpec, classes: int, clients: int) -> None:
        super().check(inputs, classes, clients)
        named = f"attack '{ATTACK.complete(self)}'"
        if not inputs.is_numbers or len(inputs.shape) not in (2, 3) or min(inputs.shape[-2:]) < self.patch:
            raise UserError(
                f"{named} puts a patch of {self.patch}×{self.patch} pixels on images, but the samples have {inputs}; "
                "accepted: images (channels, height, width) of at least that size, or another attack"
            )
        if self.target >= classes:
            raise UserError(f"{named}: target is {self.target}; accepted: a class, 0 to {classes - 1}")

    def crafted(self, own: Tensor, view: View, rng: np.random.Generator) -> Tensor:
        return (view.clients / view.attackers if self.gamma == "auto" else self.gamma) * own

    def poisoned(self, samples: Samples, rng: np.random.Generator) -> tuple[Inputs, Tensor]:
        assert isinstance(samples.x, Tensor)  # as `check` saw
        count = len(samples.y)
        rows = torch.from_numpy(permutation(rng, count)[: int(self.poisoned_share * count + 0.5)])
        x, y = samples.x.clone(), samples.y.clone()
        x[rows] = self._patched(x[rows], samples.brightest())
        y[rows] = self.target
        return x, y

    def probed(self, y: Tensor) -> Tensor:
        return y != self.target

    def probe(self, samples: Samples) -> tuple[Inputs, Tensor]:
        assert isinstance(samples.x, Tensor)
        rows = self.probed(samples.y)
        return self._patched(samples.x[rows], samples.brightest()), torch.full_like(samples.y[rows], self.target)

    def _patched(self, x: Tensor, brightest: Tensor) -> Tensor:
        """The images with the patch; x is a copy already."""
        x[..., -self.patch :, -self.patch :] = brightest[..., -self.patch :, -self.patch :]
        return x
