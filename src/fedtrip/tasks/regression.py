"""One number for each sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.tasks.interface import Goal, Sums, Task
from fedtrip.vectors import total

OWN = ("loss", "absolute", "y", "y squared")
"""The sums that its scores are made of; others, of a subclass, are scores themselves."""


@dataclass(frozen=True)
class Regression(Task):
    """loss ½(ŷ − y)², scored by the root mean squared error and R² = 1 − Σ(ŷ − y)²/Σ(y − ȳ)²"""

    title = "one number for each sample: squared error, RMSE, MAE and R²"
    goal = Goal("rmse", higher_is_better=False)
    targets = "numbers"
    flat_outputs = True

    def check(self, y: Tensor) -> None:
        if not y.is_floating_point():
            raise UserError(
                "task 'regression' has integer targets; accepted: floating-point targets, or task classification"
            )

    def outputs(self, classes: int) -> int:
        return 1

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.summed_loss(outputs, y) / len(y)

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs.reshape(-1) - y).square().sum() / 2

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        goal = y.double()
        errors = outputs.reshape(-1).double() - goal
        return {
            "loss": total(errors * errors) / 2,
            "absolute": total(errors.abs()),
            "y": total(goal),
            "y squared": total(goal * goal),
        }

    def scores(self, sums: Mapping[str, float], samples: int) -> dict[str, float]:
        squared = 2 * sums["loss"]
        spread = sums["y squared"] - sums["y"] * sums["y"] / samples
        return {
            "rmse": math.sqrt(squared / samples),
            "mae": sums["absolute"] / samples,
            "r2": 1 - squared / spread if spread > 0 else math.nan,
            "loss": sums["loss"] / samples,
            **super().scores({name: total for name, total in sums.items() if name not in OWN}, samples),
        }
