"""One class for each sample."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from fedtrip.errors import UserError
from fedtrip.tasks.interface import ACCURACY, Sums, Task
from fedtrip.vectors import total


@dataclass(frozen=True)
class Classification(Task):
    """loss −log softmax(z)_y, scored by accuracy"""

    title = "one class for each sample: cross entropy, accuracy"
    goal = ACCURACY

    def check(self, y: Tensor) -> None:
        if y.is_floating_point():
            raise UserError(
                "task 'classification' has targets that are no integers; accepted: class numbers, or task regression"
            )

    def outputs(self, classes: int) -> int:
        return classes

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, y)

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, y, reduction="sum")

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        return {"accuracy": int((outputs.argmax(1) == y).sum()), "loss": summed_cross_entropy(outputs, y)}


def summed_cross_entropy(logits: Tensor, y: Tensor) -> float:
    """Σ log Σ_j exp(z_j) − z_y over a block; for few classes five times faster than torch's own."""
    largest = logits.amax(1, keepdim=True)
    log_sums = (logits - largest).exp_().sum(1, keepdim=True).log_().add_(largest)
    return total(log_sums.sub_(logits.gather(1, y[:, None])))
