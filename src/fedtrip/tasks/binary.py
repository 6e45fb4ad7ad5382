"""One class of two for each sample, by a single logit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.tasks import _logistic
from fedtrip.tasks._scores import auc, balanced_accuracy, confusion_matrix, mean_f1
from fedtrip.tasks.interface import SHARES, Goal, Kept, Sums, Task

OWN = ("loss", "confusion", "logits", "labels")
"""The sums that its scores are made of; others, of a subclass, are scores themselves."""


@dataclass(frozen=True)
class Binary(Task):
    """loss p·y·log(1 + e^−z) + (1 − y)·log(1 + e^z); class 1 is predicted where z > 0

    F1 = 2TP/(2TP + FP + FN) of class 1; AUC = P(z of a 1 > z of a 0) + ½·P(they are equal).
    """

    title = "one class of two, by one logit: accuracy, balanced accuracy, F1, AUC"
    flat_outputs = True

    pos_weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """p, the weight of a sample of class 1"""
    score: Literal["accuracy", "balanced_accuracy", "f1", "auc"] = "accuracy"
    """the goal, which a target is about"""

    @property
    def goal(self) -> Goal:
        return SHARES[self.score]

    def check_classes(self, classes: int) -> None:
        if classes > 2:
            raise UserError(
                f"task 'binary' wants two classes, 0 and 1, but the targets have {classes}; accepted: such targets, or "
                "task classification"
            )

    def outputs(self, classes: int) -> int:
        return 1

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return _logistic.summed_loss(outputs.reshape(y.shape), y, self.pos_weight)

    def summed_gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        return _logistic.summed_gradient(outputs, y.reshape(outputs.shape), self.pos_weight)

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        logits = outputs.reshape(y.shape)
        return {
            "loss": _logistic.total_loss(logits, y, self.pos_weight),
            "confusion": confusion_matrix(y, self.predicted_classes(outputs), 2),
            "logits": Kept.of(logits),
            "labels": Kept.of(y == 1),
        }

    def scores(self, sums: Mapping[str, Any], samples: int) -> dict[str, float]:
        confusion = sums["confusion"]
        return {
            "accuracy": int(confusion.diagonal().sum()) / samples,
            "balanced_accuracy": balanced_accuracy(confusion),
            "f1": mean_f1(confusion[1:, 1], confusion[:1, 1], confusion[1:, 0]),
            "auc": auc(sums["logits"].values, sums["labels"].values),
            "loss": sums["loss"] / samples,
            **super().scores({name: value for name, value in sums.items() if name not in OWN}, samples),
        }

    def predicted_classes(self, outputs: Tensor) -> Tensor:
        return (outputs.reshape(len(outputs)) > 0).long()
