"""One number or several for each sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fedtrip.tasks.interface import Goal, Sums, Task
from fedtrip.vectors import total

OWN = ("loss", "absolute", "y", "y squared", "numbers")
"""The sums that its scores are made of; others, of a subclass, are scores themselves."""


@dataclass(frozen=True)
class Regression(Task):
    """loss ½(ŷ − y)², scored by the root mean squared error and R² = 1 − Σ(ŷ − y)²/Σ(y − ȳ)²

    Of several numbers a sample, all are means over all numbers of all samples, but ȳ is each one's own.
    """

    title = "one number or several for each sample: squared error, RMSE, MAE and R²"
    goal = Goal("rmse", higher_is_better=False)
    targets = "numbers"
    flat_outputs = True

    def outputs(self, classes: int) -> int:
        return 1

    def output_shape(self, classes: int, y: Tensor) -> tuple[int, ...]:
        return (1,) if y.dim() == 1 else tuple(y.shape[1:])

    def count(self, y: Tensor) -> float:
        return y.numel()

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs.reshape(y.shape) - y).square().sum() / 2

    def summed_gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs - y.reshape(outputs.shape)

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        goal = y.double()
        errors = outputs.reshape(y.shape).double() - goal
        columns = goal.reshape(len(y), -1).T.contiguous()
        return {
            "loss": total(errors * errors) / 2,
            "absolute": total(errors.abs()),
            "y": np.array([total(column) for column in columns]),
            "y squared": total(goal * goal),
            "numbers": y.numel(),
        }

    def scores(self, sums: Mapping[str, Any], samples: int) -> dict[str, float]:
        squared, numbers = 2 * sums["loss"], sums["numbers"]
        spread = sums["y squared"] - sum(y * y / samples for y in sums["y"].tolist())
        return {
            "rmse": math.sqrt(squared / numbers),
            "mae": sums["absolute"] / numbers,
            "r2": 1 - squared / spread if spread > 0 else math.nan,
            "loss": sums["loss"] / numbers,
            **super().scores({name: total for name, total in sums.items() if name not in OWN}, samples),
        }
