"""Scores of answers that are right or wrong, each from counts or from what was kept of every sample.

Counts are integers and a mean is rounded once, so that no score depends on the order or on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Counts = NDArray[np.int64]


def confusion_matrix(y: Tensor, predicted: Tensor, classes: int) -> Counts:
    """Samples of each class (row) by the class that was predicted (column)."""
    counts = np.bincount((y * classes + predicted).numpy(), minlength=classes * classes)
    return counts.reshape(classes, classes)


def balanced_accuracy(confusion: Counts) -> float:
    """The mean of the classes' recalls, TP/(TP + FN), over the classes that have samples."""
    samples, right = confusion.sum(axis=1), confusion.diagonal()
    return _mean(right[samples > 0] / samples[samples > 0])


def macro_f1(confusion: Counts) -> float:
    """The mean of the classes' F1, over the classes that have samples or were predicted."""
    right = confusion.diagonal()
    return mean_f1(right, confusion.sum(axis=0) - right, confusion.sum(axis=1) - right)


def mean_f1(hits: Counts, false_alarms: Counts, misses: Counts) -> float:
    """The mean of F1 = 2TP/(2TP + FP + FN), over those for which it is defined."""
    whole = 2 * hits + false_alarms + misses
    return _mean(2 * hits[whole > 0] / whole[whole > 0])


def auc(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: P(a positive's score > a negative's) + ½·P(they are equal), over all such pairs.

    Not a number without a positive or a negative sample, or where a score is not a number.
    """
    if np.isnan(scores).any():
        return math.nan
    values, place = np.unique(scores, return_inverse=True)
    positives = np.bincount(place[positive], minlength=len(values))
    negatives = np.bincount(place[~positive], minlength=len(values))
    pairs = int(positives.sum()) * int(negatives.sum())
    below = np.cumsum(negatives) - negatives
    won_twice = int((positives * (2 * below + negatives)).sum())
    return won_twice / (2 * pairs) if pairs else math.nan


def macro_auc(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """The mean of the columns' AUC, over those that have positives and negatives."""
    areas = np.array([auc(one, of) for one, of in zip(scores.T, positive.T, strict=True)])
    defined = positive.any(axis=0) & ~positive.all(axis=0)
    return _mean(areas[defined])


def _mean(values: NDArray[np.float64]) -> float:
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan
