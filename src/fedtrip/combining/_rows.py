"""What several rules of combining do with a clients × d matrix of differences; sums in client order, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedtrip.vectors import axpy, total


def weighted_sum(rows: Tensor, weights: Sequence[float]) -> Tensor:
    """Σ_k a_k·row_k, added in client order."""
    summed = torch.zeros_like(rows[0])
    for weight, row in zip(weights, rows, strict=True):
        axpy(summed, weight, row)
    return summed


def length(row: Tensor) -> float:
    """‖row‖ = √(Σ row_i²), in float64: finite for every row of float32 numbers."""
    return math.sqrt(total(row * row))


def shrinking(row: Tensor, c: float) -> float:
    """min(1, c/‖row‖), by which a row is multiplied so that it is no longer than c; 1 for one of zeros."""
    size = length(row)
    return 1.0 if size <= c else c / size


def clipped_mean(rows: Tensor, shares: list[float], c: float) -> Tensor:
    """Σ_k p_k·row_k·min(1, c/‖row_k‖)."""
    return weighted_sum(rows, [p * shrinking(row, c) for p, row in zip(shares, rows, strict=True)])


def judged(differences: Mapping[str, Tensor]) -> Tensor:
    """The rows by which clients are judged: those of `w`, or in an exchange without it all that is sent in it."""
    return differences["w"] if "w" in differences else torch.cat(list(differences.values()), dim=1)
