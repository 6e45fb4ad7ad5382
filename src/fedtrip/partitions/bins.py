"""Label skew for a regression: the targets in bins, which stand for the classes that they do not have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.partitions._draws import LogWeights, WeightedDraw
from fedtrip.partitions.dirichlet import Dirichlet
from fedtrip.partitions.interface import Partition, ToPartition


@dataclass(frozen=True)
class Bins(WeightedDraw):
    """targets in B quantile bins; bin probabilities of each client ~ Dirichlet(α, …, α), as `dirichlet` has of classes

    Bin b holds the targets from the ⌈b·n/B⌉-th smallest (counted from 0) to below that of bin b + 1. Equal targets are
    in one bin, so where many are equal a bin may be empty.
    """

    title = "for a regression: targets in BINS quantile bins, drawn as `dirichlet` draws classes (bins:BINS:ALPHA)"
    parameter = "bins"
    second_parameter = "alpha"

    bins: Annotated[int, Field(ge=1)]
    """B, the number of bins"""
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    """α, the concentration: below 1 a client has few bins, above it nearly all"""

    def bin_of(self, targets: Tensor) -> NDArray[np.intp]:
        """The bin of each target."""
        if not targets.is_floating_point() or targets.numel() != len(targets):
            raise UserError(
                f"partition '{self.text}' needs targets of one number a sample, as of task regression; accepted here: "
                "dirichlet:ALPHA for classes, iid for any others"
            )
        values = targets.numpy().ravel()
        if self.bins > len(values):
            raise UserError(f"partition '{self.text}' has more bins than samples; accepted: 1 to {len(values)}")
        first = -(-np.arange(1, self.bins) * len(values) // self.bins)
        return np.searchsorted(np.sort(values)[first], values, side="right")

    def log_weights(self, data: ToPartition) -> LogWeights:
        return Dirichlet(self.alpha).log_weights(data)

    def __call__(self, data: ToPartition) -> Partition:
        return super().__call__(replace(data, labels=self.bin_of(data.targets), classes=self.bins))
