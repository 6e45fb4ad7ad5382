"""Rules of combining written down again in NumPy, slowly and plainly: what the library's must equal."""

import numpy as np


def geometric(rows, weights, iterations=4, nu=1e-5):
    z = np.average(rows, axis=0, weights=weights)
    for _ in range(iterations):
        pulls = weights / np.maximum(nu, np.linalg.norm(z - rows, axis=1))
        z = np.average(rows, axis=0, weights=pulls)
    return z


def krum_order(rows, f):
    scores = []
    for k in range(len(rows)):
        others = np.delete(np.arange(len(rows)), k)
        distances = np.sort(np.linalg.norm(rows[others] - rows[k], axis=1))
        scores.append(np.sum(distances[: len(rows) - f - 2] ** 2))
    return np.argsort(scores, kind="stable")


def krum(rows, _weights, f=1):
    return rows[krum_order(rows, f)[0]]


def multikrum(rows, _weights, f=1, m=None):
    return rows[krum_order(rows, f)[: m or len(rows) - f]].mean(0)


def clip(rows, weights, c=1.0):
    return sum(p * row * min(1, c / np.linalg.norm(row)) for p, row in zip(weights, rows, strict=True))


def centered(rows, weights, c=1.0, iterations=1, v=0.0):
    for _ in range(iterations):
        v = v + clip(rows - v, weights, c)
    return v


def trimmed(rows, _weights, beta=0.1):
    cut = int(beta * len(rows))
    return np.stack([np.sort(column)[cut : len(rows) - cut].mean() for column in rows.T])


def median(rows, _weights):
    return np.median(rows, axis=0)


def mean(rows, weights):
    return np.average(rows, axis=0, weights=weights)
