"""What a sample's target is: a class, several labels, numbers, or a token at each place of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # read where nothing else needs PyTorch
    from torch import Tensor

TargetKind = Literal["classes", "labels", "numbers", "tokens"]

IN_WORDS: dict[TargetKind, str] = {
    "classes": "one class a sample, integers of shape (n,)",
    "labels": "labels that a sample has or not, 0 or 1 of shape (n, labels)",
    "numbers": "numbers, floating point of shape (n,) or (n, numbers)",
    "tokens": "a token at each place, integers of shape (n, places)",
}
FITTING_TASK: dict[TargetKind, str] = {
    "classes": "classification, or binary for two classes",
    "labels": "multilabel",
    "numbers": "regression",
    "tokens": "tokens",
}
IGNORED = -100
"""The target of a place that does not count, such as padding; torch's own choice."""


def kind_of(y: Tensor) -> TargetKind:
    """What the targets of a data set are: its arrays say so by type and shape."""
    if y.is_floating_point():
        return "numbers"
    if str(y.dtype) == "torch.bool":
        return "labels"
    return "classes" if y.dim() == 1 else "tokens"
