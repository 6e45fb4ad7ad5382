"""The split that the data came with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.partitions.interface import Partition, PartitionRule, ToPartition, check_client


@dataclass(frozen=True)
class Given(PartitionRule):
    """as the data come split"""

    title = "as the data come split"

    def __call__(self, data: ToPartition) -> Partition:
        if data.client_train is None:
            raise UserError(
                "partition 'given' needs data that are already split, and these are not; "
                "accepted: iid, dirichlet:ALPHA, orthogonal:CLUSTERS"
            )
        return GivenPartition(data.client_train, data.clients)


class GivenPartition:
    """The split that the data came with: sample i belongs to client `client_train[i]`."""

    def __init__(self, client_train: Tensor, clients: int) -> None:
        owners = client_train.numpy()
        self._order = np.argsort(owners, kind="stable")
        in_order = owners[self._order]
        if len(owners) == 0 or in_order[0] < 0:
            raise UserError("client_train of the data is not accepted; accepted: client numbers from 0, one a sample")
        self.clients = int(in_order[-1]) + 1
        if clients != self.clients:
            raise UserError(f"clients {clients} is not accepted: the data are split; accepted: {self.clients}")
        self._offsets = np.searchsorted(in_order, np.arange(self.clients + 1))
        if len(empty := np.flatnonzero(np.diff(self._offsets) == 0)):
            raise UserError(f"client {empty[0]} of the split data has no samples; accepted: at least 1 for each client")

    def samples(self, client: int) -> int:
        check_client(client, self.clients)
        return int(self._offsets[client + 1] - self._offsets[client])

    def share(self, client: int) -> Tensor:
        check_client(client, self.clients)
        return torch.from_numpy(self._order[self._offsets[client] : self._offsets[client + 1]].copy())
