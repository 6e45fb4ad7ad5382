"""Clients and classes in groups: a client has only the classes of its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedtrip.errors import UserError
from fedtrip.partitions._draws import LogWeights, WeightedDraw
from fedtrip.partitions.interface import Draw, ToPartition


@dataclass(frozen=True)
class Orthogonal(WeightedDraw):
    """client k of N is in cluster ⌊k·C/N⌋ of C, and has the classes of that cluster only"""

    title = "clients and classes in CLUSTERS groups, a client has classes of its group only"
    parameter = "clusters"
    needs_classes = True

    clusters: Annotated[int, Field(ge=1)]
    """C, the number of groups"""

    def log_weights(self, data: ToPartition) -> LogWeights:
        groups = _Groups(self.clusters, data.classes, data.clients)
        groups.check_enough(np.bincount(data.labels, minlength=data.classes), data.samples_per_client, data.draw)
        return groups


@dataclass(frozen=True)
class _Groups:
    """Weight 1 for the classes of a client's cluster, 0 for all others; client k of N is in cluster ⌊k·C/N⌋ of C."""

    clusters: int
    classes: int
    clients: int

    def __call__(self, client: int) -> NDArray[np.float64]:
        log_weights = np.full(self.classes, -np.inf)
        log_weights[self.group(client * self.clusters // self.clients)] = 0.0
        return log_weights

    def group(self, cluster: int) -> NDArray[np.intp]:
        """The cluster's classes: contiguous, and the first clusters have one more where they do not divide evenly."""
        return np.array_split(np.arange(self.classes), self.clusters)[cluster]

    def members(self, cluster: int) -> int:
        """How many clients k have ⌊k·C/N⌋ = cluster: those in [⌈cluster·N/C⌉, ⌈(cluster+1)·N/C⌉)."""
        first, after = (-(-boundary * self.clients // self.clusters) for boundary in (cluster, cluster + 1))
        return after - first

    def check_enough(self, class_sizes: NDArray[np.intp], samples_per_client: int, draw: Draw) -> None:
        """Refuse more clusters than classes or clients, and more samples than a cluster's classes hold."""
        for what, available in (("classes", self.classes), ("clients", self.clients)):
            if self.clusters > available:
                raise UserError(
                    f"partition 'orthogonal:{self.clusters}' has more clusters than {what}; accepted: 1 to {available}"
                )
        for cluster in range(self.clusters):
            group = self.group(cluster)
            held = int(class_sizes[group].sum())
            sharing = self.members(cluster) if draw == "disjoint" else 1
            if sharing * samples_per_client > held:
                raise UserError(
                    f"samples_per_client {samples_per_client} is too many for partition 'orthogonal:{self.clusters}' "
                    f"with draw '{draw}': cluster {cluster} (classes {group[0]} to {group[-1]}) holds {held} samples"
                    + (f" for its {sharing} clients together" if draw == "disjoint" else "")
                    + f"; accepted: at most {held // sharing}"
                )
