"""Krum's ranking of the clients (Blanchard et al., 2017)."""

from __future__ import annotations

import math

from torch import Tensor

from fedtrip.vectors import total


def fewest_for(f: int) -> int:
    """2f + 3: with fewer clients, f that lie could be each other's neighbours and outvote the rest."""
    return 2 * f + 3


def ranked(rows: Tensor, f: int) -> list[int]:
    """The places of the rows, the least score first, ties in client order.

    score_k = Σ of the |S| − f − 2 smallest ‖row_k − row_j‖², j ≠ k.
    """
    count = len(rows)
    if count < fewest_for(f):
        raise ValueError(f"{count} uploads, where Krum needs {fewest_for(f)} for f = {f}")
    squares = [[0.0] * count for _ in range(count)]
    for k in range(count):
        for j in range(k):
            apart = rows[k] - rows[j]
            squares[k][j] = squares[j][k] = total(apart * apart)
    scores = [score(squares[k][:k] + squares[k][k + 1 :], f) for k in range(count)]
    return sorted(range(count), key=lambda k: scores[k])


def score(squares: list[float], f: int) -> float:
    """The sum of all but the f + 1 largest of a client's |S| − 1 squared distances to the others."""
    return math.fsum(sorted(squares)[: len(squares) - 1 - f])
