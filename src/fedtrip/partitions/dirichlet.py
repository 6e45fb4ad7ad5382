"""Class probabilities of each client from a Dirichlet distribution: the usual model of label skew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedtrip.partitions._draws import LogWeights, WeightedDraw
from fedtrip.partitions._proportions import log_gammas
from fedtrip.partitions.interface import ToPartition
from fedtrip.randomness import stream


@dataclass(frozen=True)
class Dirichlet(WeightedDraw):
    """class probabilities of each client ~ Dirichlet(α, …, α), drawn for each client alone; n_k equal"""

    title = (
        "class probabilities of each client from a Dirichlet distribution, all clients of equal size; a small ALPHA "
        "means few classes each"
    )
    parameter = "alpha"
    needs_classes = True

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """α, the concentration: below 1 a client has few classes, above it nearly all"""

    def log_weights(self, data: ToPartition) -> LogWeights:
        return partial(self._of_client, classes=data.classes, seed=data.seed)

    def _of_client(self, client: int, classes: int, seed: int) -> NDArray[np.float64]:
        """Log-weights of the client's draw: the weights are Gamma(α) variates."""
        return _narrowed(log_gammas(stream(seed, "partition classes", client), self.alpha, classes))


def _narrowed(log_weights: NDArray[np.float64], widest_gap: float = 1000.0) -> NDArray[np.float64]:
    """The log-weights with every gap between neighbours cut to `widest_gap`.

    |log E| stays below 37, so classes on the two sides of such a gap never mix: no order of keys changes. But in
    float64 log E would be lost beside a log-weight of −1e20, and a class's samples would no longer be drawn at random.
    """
    order = np.argsort(log_weights, kind="stable")
    narrowed = np.zeros_like(log_weights)
    narrowed[order[1:]] = np.minimum(np.diff(log_weights[order]), widest_gap).cumsum()
    return narrowed
