"""The paper's convergence analysis as functions: what its symbols are worth for given settings."""

from __future__ import annotations

import math


def expected_xi(p: float) -> float:
    """E[ξ] = p·ln p/(p − 1), the limit of E[1/gap] for a client that takes part in each round with probability p.

    The gap is geometric, P(gap = n) = p(1 − p)^{n−1}, so E[1/gap] = p/(1 − p)·Σ (1 − p)^n/n.
    """
    if not 0 < p <= 1:
        raise ValueError(f"p is {p}; accepted: above 0, at most 1")
    return 1.0 if p == 1 else p * math.log(p) / (p - 1)


def rho(mu: float, lipschitz: float, dissimilarity: float, gamma: float = 0.0) -> float:
    """ρ of Theorem 1: (1 − γB)/μ − L(1 + γ)B/μ² − L(1 + γ)²B²/(2μ²).

    E[f(w^{t+1})] ≤ f(w^t) − ρ‖∇f(w^t)‖² − Q^t, so progress is promised where ρ > 0.
    """
    inexact = 1 + gamma
    return (
        (1 - gamma * dissimilarity) / mu
        - lipschitz * inexact * dissimilarity / mu**2
        - lipschitz * inexact**2 * dissimilarity**2 / (2 * mu**2)
    )


def added_curvature(mu: float, xi: float) -> float:
    """μ(1 − ξ): what the triplet term adds to every eigenvalue of F_k's Hessian.

    Not negative for ξ ≤ 1, so h_k is as convex as F_k; for ξ > 1 (the gap itself) it is negative, and h_k is unbounded
    below as soon as F_k's curvature is smaller than μ(ξ − 1) in some direction, as every ReLU network's is.
    """
    return mu * (1 - xi)
