"""Each class divided over the clients by a Dirichlet distribution: what most other toolkits call Dirichlet."""

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
class DirichletClasses(Division):
    """class c is divided over the clients in proportions p_c ~ Dirichlet(α, …, α); at least 1 sample each

    Yurochkin et al. (2019) and Li et al. (2022), without the balancing of sizes that some implementations add. Here
    Σ_k p_c,k = 1 for each class c; in `dirichlet` it is Σ_c p_k,c = 1 for each client k, and all n_k are equal.
    """

    title = (
        "each class divided over the clients by a Dirichlet distribution, as most toolkits do: clients of unequal "
        "sizes, every sample once"
    )
    parameter = "alpha"
    needs_classes = True

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """α, the concentration: the smaller, the fewer clients share a class"""

    def owners(self, labels: NDArray[np.intp], data: ToPartition) -> NDArray[np.intp]:
        owners = np.empty(len(labels), dtype=np.intp)
        for label in range(data.classes):
            members = np.flatnonzero(labels == label)
            shares = proportions(stream(data.seed, "partition clients of class", label), self.alpha, data.clients)
            owners[members] = np.arange(data.clients).repeat(cut(len(members), shares))
        return owners
