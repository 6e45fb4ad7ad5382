"""Shares of a whole from a symmetric Dirichlet distribution, and a whole cut by them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedtrip import fixed_math
from fedtrip.randomness import exponentials, gammas


def log_gammas(generator: np.random.Generator, alpha: float, size: int) -> NDArray[np.float64]:
    """Logarithms of Gamma(α) variates, which for small α would underflow themselves.

    log Gamma(α) = log Gamma(α+1) + log(U)/α with U uniform, so −log U exponential.
    """
    alpha = max(alpha, 1e-300)  # below it log(U)/α overflows, and long before it one share is everything
    log_gamma = fixed_math.log(gammas(generator, alpha + 1, size))
    return log_gamma - exponentials(generator, size) / alpha


def proportions(generator: np.random.Generator, alpha: float, size: int) -> NDArray[np.float64]:
    """p ~ Dirichlet(α, …, α): Gamma(α) variates divided by their sum."""
    log_weights = log_gammas(generator, alpha, size)
    weights = fixed_math.exp(log_weights - float(log_weights.max()))
    total = float(weights.cumsum()[-1])  # from left to right, the same on every CPU
    return weights / total


def cut(count: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many of `count` things each share gets: thing i is of the share in which i/count lies; Σ is `count`."""
    ends = np.minimum(np.floor(shares.cumsum() * count), count).astype(np.int64)
    ends[-1] = count
    sizes: NDArray[np.int64] = np.diff(ends, prepend=0)
    return sizes
