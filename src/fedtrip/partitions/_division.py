"""Training samples divided over the clients: each has one client at most, and clients may have unequal numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.partitions.interface import Partition, PartitionRule, ToPartition, check_client, check_not_split
from fedtrip.randomness import permutation, stream


@dataclass(frozen=True)
class Division(PartitionRule):
    """Base of the partitions that are such a division: a rule says the client of each sample.

    Divided are min(N·samples_per_client, n) of the n training samples, chosen at random: all of them unless
    `samples_per_client`, the mean of the clients' numbers, says fewer. So that no client has none, each that got none
    takes a sample of the client that has most. (Elsewhere all is drawn again until each has enough. With many clients
    or a small α that never ends; and what is drawn would depend on how many samples there are.)
    """

    divides = True

    def owners(self, labels: NDArray[np.intp], data: ToPartition) -> NDArray[np.intp]:
        """The client of each sample that is divided, of which these are the labels, in random order."""
        raise NotImplementedError

    def __call__(self, data: ToPartition) -> Partition:
        check_not_split(self, data)
        self._check_draw(data)
        used = permutation(stream(data.seed, "partition division"), len(data.labels))[: _divided(data)]
        owners = _with_one_each(self.owners(data.labels[used], data), data.clients)
        return OwnersPartition(owners, data.clients, used)

    def _check_draw(self, data: ToPartition) -> None:
        if data.draw == "nested":
            raise UserError(
                f"draw is 'nested': partition '{self.text}' gives every sample to one client; accepted: disjoint, or "
                "overlap, which here means the same"
            )


class OwnersPartition:
    """Sample `samples[i]` belongs to client `owners[i]`; a client's are in the order in which they come here."""

    def __init__(self, owners: NDArray[np.intp], clients: int, samples: NDArray[np.int64] | None = None) -> None:
        self.clients = clients
        order = np.argsort(owners, kind="stable")
        self._offsets = np.searchsorted(owners[order], np.arange(clients + 1))
        self._order = order if samples is None else samples[order]

    def samples(self, client: int) -> int:
        check_client(client, self.clients)
        return int(self._offsets[client + 1] - self._offsets[client])

    def share(self, client: int) -> Tensor:
        check_client(client, self.clients)
        return torch.from_numpy(self._order[self._offsets[client] : self._offsets[client + 1]].copy())


def _divided(data: ToPartition) -> int:
    """How many samples are divided."""
    size, clients, samples_per_client = len(data.labels), data.clients, data.samples_per_client
    if clients > size:
        raise UserError(f"clients is {clients}, more than the training set has samples; accepted: at most {size}")
    most = -(-size // clients)
    if not 1 <= samples_per_client <= most:
        raise UserError(
            f"samples_per_client is {samples_per_client}: the {size} samples of the training set are divided over "
            f"{clients} clients; accepted: 1 to {most}, or nothing for all of them"
        )
    return min(clients * samples_per_client, size)


def _with_one_each(owners: NDArray[np.intp], clients: int) -> NDArray[np.intp]:
    """The owners, but a client without samples, in their order, takes the last one of the client that has most."""
    owners, sizes = owners.copy(), np.bincount(owners, minlength=clients)
    for client in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        owners[np.flatnonzero(owners == largest)[-1]] = client
        sizes[largest] -= 1
    return owners
