"""Which training samples each client holds: one weighted draw without replacement, for every partition.

Client k has a log-weight for each class, and sample i the key

    key_i = log E_i − log w_k[label_i],        E_i ~ Exponential(1).

The n smallest keys are its samples, in that order. That is sampling without replacement with probabilities
proportional to w_k[label] (Efraimidis and Spirakis; `torch.multinomial` does the same): since E_i / w is
exponential with rate w, the next smallest belongs to sample i with probability w_i / Σ w of those left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip import fixed_math
from fedtrip.errors import UserError
from fedtrip.partitions.interface import Draw, Partition, PartitionRule, ToPartition, check_client, check_not_split
from fedtrip.randomness import exponentials, stream

LogWeights = Callable[[int], NDArray[np.float64]]


@dataclass(frozen=True)
class WeightedDraw(PartitionRule):
    """Base of the partitions that are such a draw: a rule says the classes' log-weights of each client."""

    draws = True
    equal_sizes = True

    def log_weights(self, data: ToPartition) -> LogWeights:
        """Client → its log-weight of each class, up to a constant."""
        raise NotImplementedError

    def __call__(self, data: ToPartition) -> Partition:
        check_not_split(self, data)
        _check_enough(len(data.labels), data.clients, data.samples_per_client, data.draw)
        kinds = {"overlap": OverlapPartition, "nested": NestedPartition, "disjoint": DisjointPartition}
        return kinds[data.draw](data.labels, self.log_weights(data), data.clients, data.samples_per_client, data.seed)


class OverlapPartition:
    """Every client draws from the whole data set, on its own; nothing is kept between calls."""

    def __init__(
        self, labels: NDArray[np.intp], log_weights: LogWeights, clients: int, samples_per_client: int, seed: int
    ) -> None:
        self.clients = clients
        self._labels = labels
        self._log_weights = log_weights
        self._samples = samples_per_client
        self._seed = seed

    def samples(self, client: int) -> int:
        check_client(client, self.clients)
        return self._samples

    def share(self, client: int) -> Tensor:
        check_client(client, self.clients)
        log_exponentials = self._log_exponentials(client)
        return torch.from_numpy(_smallest(log_exponentials - self._log_weights(client)[self._labels], self._samples))

    def _log_exponentials(self, client: int) -> NDArray[np.float64]:
        """log E_i of every sample, from the client's own stream."""
        return _log_exponentials(len(self._labels), self._seed, client)


class NestedPartition(OverlapPartition):
    """As `overlap`, but with the same E_i for every client, as with one generator seed for all in the authors' code."""

    def _log_exponentials(self, client: int) -> NDArray[np.float64]:
        return self._shared_log_exponentials

    @cached_property
    def _shared_log_exponentials(self) -> NDArray[np.float64]:
        return _log_exponentials(len(self._labels), self._seed)


class DisjointPartition(OverlapPartition):
    """Client 0 draws, then client 1 from what is left, …: all at once, when the first share is asked for."""

    def share(self, client: int) -> Tensor:
        check_client(client, self.clients)
        return torch.from_numpy(self._shares[client].copy())

    @cached_property
    def _shares(self) -> NDArray[np.int64]:
        shares = np.empty((self.clients, self._samples), dtype=np.int64)
        left, left_labels = np.arange(len(self._labels)), self._labels
        for client in range(self.clients):
            keys = _log_exponentials(len(left), self._seed, client) - self._log_weights(client)[left_labels]
            taken = _smallest(keys, self._samples)
            shares[client] = left[taken]
            stays = np.ones(len(left), dtype=bool)
            stays[taken] = False
            left, left_labels = left[stays], left_labels[stays]
        return shares


def _log_exponentials(size: int, seed: int, *client: int) -> NDArray[np.float64]:
    """log E_i of `size` samples, from one client's stream or (no client) from the one all share."""
    return fixed_math.log(exponentials(stream(seed, "partition samples", *client), size))


def _smallest(keys: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where the `count` smallest keys are, the smallest first, of equal ones the first first."""
    largest = np.partition(keys, count - 1)[count - 1]  # a value is the same however it is found, places are not
    candidates = np.flatnonzero(keys <= largest)
    return candidates[np.argsort(keys[candidates], kind="stable")[:count]].astype(np.int64, copy=False)


def _check_enough(size: int, clients: int, samples_per_client: int, draw: Draw) -> None:
    """Refuse to draw more samples than the training set has."""
    if samples_per_client < 1:
        raise UserError(f"samples_per_client {samples_per_client} is not accepted; accepted: an integer from 1")
    if samples_per_client > size:
        raise UserError(
            f"samples_per_client {samples_per_client} is more than the training set holds; accepted: at most {size}"
        )
    if draw == "disjoint" and clients * samples_per_client > size:
        raise UserError(
            f"draw 'disjoint' needs {clients} clients × {samples_per_client} samples_per_client = "
            f"{clients * samples_per_client} samples; accepted: at most {size}, the size of the training set"
        )
