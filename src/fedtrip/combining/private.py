"""Differential privacy of whole clients: the server clips what each sends, and adds noise to the sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedtrip.combining import _accounting
from fedtrip.combining._rows import length, shrinking
from fedtrip.combining.interface import Combine, Plan
from fedtrip.errors import UserError
from fedtrip.fixed_math import exp
from fedtrip.randomness import normals
from fedtrip.vectors import Vectors, axpy

STEP, SHARE = 0.2, 0.5
"""How fast C follows, and the share of the clients that it is to leave as they are."""
BITS_PER_CLIENT = 1 / 20
"""σ_b for each planned client, where it is not given."""
CLIP = "clip"
"""State: C of the next round."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Private(Combine):
    """(Σ_S Δ_k·min(1, C/‖Δ_k‖) + N(0, z²C²)) / m, with m the planned number of clients

    DP-FedAvg (McMahan et al., 2018) with uniform weights: a sample count would be a second thing that a client says.
    The sum is divided by the *planned* number K, whoever answers, and a round without clients adds noise alone: who
    took part stays hidden too. Clients are drawn one by one (`select` poisson): the usual ε holds for that only.

    With `adaptive` C follows the median norm (Andrew et al., 2021), b_k = [‖Δ_k‖ ≤ C]:

        b̃ = (Σ_S (b_k − ½) + N(0, σ_b²))/m + ½,    C ← C·exp(−0.2(b̃ − ½)),

    and the noise on the sum is z_Δ = (z⁻² − (2σ_b)⁻²)^(−½), so that sum and bits together cost what z alone does.
    """

    title = "client-level differential privacy: clipped, with equal weights, and with noise"
    parameter = "noise"
    is_private: ClassVar[bool] = True

    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """z, the noise's standard deviation in units of C (default: the smallest that keeps to `epsilon`)"""
    clip: Positive = 1.0
    """C, the longest difference of a client; with `adaptive` that of the first round"""
    epsilon: Positive | None = None
    """ε that all rounds together may cost, in place of `noise`"""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """δ, below 1/N"""
    adaptive: bool = False
    """C follows the median of the clients' norms"""
    bit_noise: Positive | None = None
    """σ_b, the noise on the number of clients below C (default: m/20); only with `adaptive`"""
    planned: Annotated[int, Field(ge=1)] | None = None
    """m, what the sum is divided by (default: per_round)"""

    @property
    def fewest(self) -> int:
        return 0

    def further_operations(self, clients: int) -> int:
        return clients + 1

    def as_planned(self, plan: Plan) -> Self:
        if self.noise is not None and self.epsilon is not None:
            raise UserError(
                f"combine 'private' has noise {self.noise} and epsilon {self.epsilon}; accepted: one of the two"
            )
        if self.noise is None and self.epsilon is None:
            raise UserError(
                "combine 'private' does not say how private; accepted: epsilon, such as --epsilon 8, or noise, such as "
                "--combine private:1"
            )
        if not self.delta < 1 / plan.clients:
            raise UserError(
                f"combine 'private' has delta {self.delta}, but with δ ≥ 1/N the data of one of the N = {plan.clients} "
                f"clients could be published as they are; accepted: below {1 / plan.clients:.2g}"
            )
        noise = self.noise
        if noise is None:
            assert self.epsilon is not None
            noise = _accounting.noise_for(self.epsilon, self.delta, plan.rate, plan.rounds)
        elif noise:
            _accounting.check_installed()
        planned = replace(
            self,
            noise=noise,
            epsilon=None,
            planned=self.planned or plan.per_round,
            bit_noise=self._bit_noise(plan) if self.adaptive else self.bit_noise,
        )
        planned._check_bits()
        return planned

    def _bit_noise(self, plan: Plan) -> float:
        return self.bit_noise or (self.planned or plan.per_round) * BITS_PER_CLIENT

    def _check_bits(self) -> None:
        """Refuse noise on the bits that alone costs all of ε, and noise on bits that there are not."""
        if not self.adaptive:
            if self.bit_noise is not None:
                raise UserError(f"combine 'private' has bit_noise {self.bit_noise}; accepted: only with adaptive=true")
            return
        assert self.noise is not None
        assert self.bit_noise is not None
        if self.noise >= 2 * self.bit_noise:
            raise UserError(
                f"combine 'private' has noise z = {self.noise:g} and bit_noise σ_b = {self.bit_noise:g}: the bits "
                f"alone would cost all of ε; accepted: a bit_noise above z/2 = {self.noise / 2:g}, more clients a "
                "round (σ_b is K/20 by default), or adaptive=false with a clip of your own"
            )

    @property
    def noise_on_sum(self) -> float:
        """z_Δ: more than z where the bits cost something too."""
        assert self.noise is not None
        if not self.adaptive or not self.noise:
            return self.noise
        assert self.bit_noise is not None
        return 1 / math.sqrt(1 / self.noise**2 - 1 / (2 * self.bit_noise) ** 2)

    def start(self, model: Mapping[str, Tensor]) -> Vectors:
        return {CLIP: torch.tensor([self.clip], dtype=torch.float64)}

    def __call__(
        self,
        differences: Mapping[str, Tensor],
        weights: Tensor,
        state: Vectors,
        rng: np.random.Generator,
    ) -> tuple[Vectors, Vectors]:
        assert self.planned is not None
        clip = float(state[CLIP])
        (name, matrix), *others = differences.items()
        assert not others, "what leaves beside w would have no noise"
        total, below = torch.zeros(matrix.shape[1], dtype=torch.float64), 0.0
        for row in matrix:
            axpy(total, shrinking(row, clip), row)
            below += (length(row) <= clip) - SHARE
        if self.noise:
            axpy(total, self.noise_on_sum * clip, torch.from_numpy(normals(rng, len(total))))
        combined = {name: total.div_(self.planned)}
        if not self.adaptive:
            return combined, state
        assert self.bit_noise is not None
        said = (below + self.bit_noise * float(normals(rng, 1)[0])) / self.planned + SHARE
        after = clip * exp(-STEP * (said - SHARE))
        return combined, {CLIP: torch.tensor([after], dtype=torch.float64)}

    def spent(self, rounds: int, plan: Plan) -> float | None:
        """ε of so many rounds; None if there is no noise, and so no bound."""
        if not self.noise:
            return None
        return _accounting.epsilon_after(rounds, plan.rate, self.noise, self.delta)

    def promise(self, rounds: int, plan: Plan, spent: float | None) -> str:
        if spent is None:
            return "no privacy: the noise is 0"
        clip = f"C from {self.clip:g}, adaptive" if self.adaptive else f"C = {self.clip:g}"
        return (
            f"({_shown(spent)}, δ = {self.delta:g})-differential privacy of whole clients after {rounds} rounds: what "
            "came out would have been nearly as likely without any one of the clients (neighbours differ in one "
            f"client, added or removed). Each client took part in a round with probability {plan.rate:.4g}; noise z = "
            f"{self.noise:g}, {clip}; counted by dp-accounting (RDP). Not covered: settings and a target that were "
            "chosen on the same data; scores on clients' own samples; the server, which sees every upload; whoever "
            "knows the seed of a simulation"
        )


def _shown(epsilon: float) -> str:
    return f"ε = {math.ceil(epsilon * 1000) / 1000:g}"
