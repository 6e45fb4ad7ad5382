"""A token at each place of a sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional

from fedtrip import fixed_math
from fedtrip.targets import IGNORED
from fedtrip.tasks.interface import ACCURACY, Goal, Sums, Task
from fedtrip.vectors import total

OWN = ("loss", "right", "tokens")
"""The sums that its scores are made of; others, of a subclass, are scores themselves."""
PERPLEXITY = Goal("perplexity", higher_is_better=False)


@dataclass(frozen=True)
class Tokens(Task):
    """loss −log softmax(z)_y, mean over all places that count, which are those with y ≠ −100; perplexity e^loss

    Accuracy is the share of these places whose largest logit is that of y.
    """

    title = "a token at each place of a sequence: accuracy by token, perplexity"
    targets = "tokens"

    score: Literal["accuracy", "perplexity"] = "accuracy"
    """the goal, which a target is about; of perplexity less is better"""

    @property
    def goal(self) -> Goal:
        return ACCURACY if self.score == "accuracy" else PERPLEXITY

    def outputs(self, classes: int) -> int:
        return classes

    def output_shape(self, classes: int, y: Tensor) -> tuple[int, ...]:
        return (*y.shape[1:], classes)

    def count(self, y: Tensor) -> float:
        return int((y != IGNORED).sum())

    def summed_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, -2), y.flatten(), ignore_index=IGNORED, reduction="sum")

    def sums(self, outputs: Tensor, y: Tensor) -> Sums:
        logits, goals = outputs.flatten(0, -2), y.flatten()
        losses = functional.cross_entropy(logits, goals, ignore_index=IGNORED, reduction="none")
        return {"loss": total(losses), "right": int((logits.argmax(1) == goals).sum()), "tokens": self.count(y)}

    def scores(self, sums: Mapping[str, Any], samples: int) -> dict[str, float]:
        tokens = sums["tokens"] or math.nan
        loss = sums["loss"] / tokens
        return {
            "accuracy": sums["right"] / tokens,
            "perplexity": fixed_math.exp(loss),
            "loss": loss,
            **super().scores({name: value for name, value in sums.items() if name not in OWN}, samples),
        }
