"""Several labels that a sample has or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from fedtrip.tasks import _logistic
from fedtrip.tasks._scores import macro_auc, mean_f1
from fedtrip.tasks.interface import SHARES, Goal, Kept, Sums, Task

OWN = ("loss", "hits", "false alarms", "misses", "right", "all right", "logits", "labels")
"""The sums that its scores are made of; others, of a subclass, are scores themselves."""


@dataclass(frozen=True)
class Multilabel(Task):
    """loss y·log(1 + e^−z) + (1 − y)·log(1 + e^z), mean over all labels of all samples; predicted where z > 0

    Macro F1 is the mean over labels of 2TP/(2TP + FP + FN), without those that no sample has and none was given.
    """

    title = "labels that a sample has or not, a logit each: accuracy, exact match, macro F1, macro AUC"
    targets = "labels"

    score: Literal["macro_f1", "accuracy", "exact_match", "macro_auc"] = "macro_f1"
    """the goal, which a target is about; accuracy is the share of all labels that are right, exact_match of the samples
    with all labels right"""

    @property
    def goal(self) -> Goal:
        return SHARES[self.score]

    def outputs(self, classes: int) -> int:
        return classes

    def count(self, y: Tensor) -> float:
        return y.numel()

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return _logistic.summed_loss(outputs, y, 1.0)

    def summed_gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        return _logistic.summed_gradient(outputs, y, 1.0)

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        predicted = outputs > 0
        right = predicted == y
        return {
            "loss": _logistic.total_loss(outputs, y, 1.0),
            "hits": (predicted & y).sum(0).numpy(),
            "false alarms": (predicted & ~y).sum(0).numpy(),
            "misses": (~predicted & y).sum(0).numpy(),
            "right": int(right.sum()),
            "all right": int(right.all(1).sum()),
            "logits": Kept.of(outputs),
            "labels": Kept.of(y),
        }

    def scores(self, sums: Mapping[str, Any], samples: int) -> dict[str, float]:
        labels = samples * len(sums["hits"])
        return {
            "macro_f1": mean_f1(sums["hits"], sums["false alarms"], sums["misses"]),
            "macro_auc": macro_auc(sums["logits"].values, sums["labels"].values),
            "accuracy": sums["right"] / labels,
            "exact_match": sums["all right"] / samples,
            "loss": sums["loss"] / labels,
            **super().scores({name: value for name, value in sums.items() if name not in OWN}, samples),
        }
