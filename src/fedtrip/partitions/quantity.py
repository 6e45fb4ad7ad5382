"""Clients that differ in how many samples they have, and in nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedtrip.partitions._division import Division
from fedtrip.partitions._proportions import cut, proportions
from fedtrip.partitions.interface import ToPartition
from fedtrip.randomness import stream


@dataclass(frozen=True)
class Quantity(Division):
    """client k has n_k of all n samples, at random; (n_1, …, n_N)/n ~ Dirichlet(β, …, β), at least 1 each

    The quantity skew of Li et al. (2022).
    """

    title = "classes as with iid, numbers of samples from a Dirichlet distribution; a small BETA means very unequal"
    parameter = "beta"

    beta: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """β, the concentration: the smaller, the more unequal"""

    def owners(self, labels: NDArray[np.intp], data: ToPartition) -> NDArray[np.intp]:
        shares = proportions(stream(data.seed, "partition quantities"), self.beta, data.clients)
        return np.arange(data.clients).repeat(cut(len(labels), shares))
