"""The split that the data came with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.families import PARTITION
from fedtrip.partitions._division import OwnersPartition
from fedtrip.partitions.interface import Partition, PartitionRule, ToPartition


@dataclass(frozen=True)
class Given(PartitionRule):
    """as the data come split: sample i belongs to client `client_train[i]`"""

    title = "as the data come split"

    def __call__(self, data: ToPartition) -> Partition:
        if data.client_train is None:
            others = ", ".join(form for form in PARTITION.forms() if form != "given")
            raise UserError(
                f"partition 'given' needs data that are already split, and these are not; accepted: {others}"
            )
        return GivenPartition(data.client_train, data.clients)


class GivenPartition(OwnersPartition):
    """The split that the data came with: sample i belongs to client `client_train[i]`.

    Every client has a sample, unless some `may_be_empty`.
    """

    def __init__(self, client_train: Tensor, clients: int, *, may_be_empty: bool = False) -> None:
        owners = client_train.numpy()
        super().__init__(owners, clients)
        if may_be_empty:
            return
        if len(owners) == 0 or owners.min() < 0:
            raise UserError("client_train of the data is not accepted; accepted: client numbers from 0, one a sample")
        if clients != owners.max() + 1:
            raise UserError(f"clients {clients} is not accepted: the data are split; accepted: {owners.max() + 1}")
        if empty := [client for client in range(clients) if self.samples(client) == 0]:
            raise UserError(f"client {empty[0]} of the split data has no samples; accepted: at least 1 for each client")
