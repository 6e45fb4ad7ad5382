"""Every client is like every other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedtrip.partitions._draws import LogWeights, WeightedDraw
from fedtrip.partitions.interface import ToPartition


@dataclass(frozen=True)
class Iid(WeightedDraw):
    """every sample equally likely for every client"""

    title = "every sample equally likely for every client"

    def log_weights(self, data: ToPartition) -> LogWeights:
        return partial(_equal, classes=data.classes)


def _equal(_client: int, classes: int) -> NDArray[np.float64]:
    return np.zeros(classes)
