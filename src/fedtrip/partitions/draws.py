"""Which training samples each client holds: one weighted draw without replacement, for every partition.

Client k has a log-weight for each class, and sample i the key

    key_i = log E_i − log w_k[label_i],        E_i ~ Exponential(1).

The n smallest keys are its samples, in that order. That is sampling without replacement with probabilities
proportional to w_k[label] (Efraimidis and Spirakis; `torch.multinomial` does the same): since E_i / w is
exponential with rate w, the next smallest belongs to sample i with probability w_i / Σ w of those left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError, unknown_name
from fedtrip.partitions.spec import parse_partition
from fedtrip.randomness import stream

Draw = Literal["overlap", "nested", "disjoint"]
"""How the clients' draws relate. `overlap`: each from the whole data set, on its own. `nested`: each from the whole
data set with the same E_i, so that of two clients' samples of a class one set holds the other (two clients with the
same weights hold the same samples). `disjoint`: one client after another from what is left."""

LogWeights = Callable[[int], NDArray[np.float64]]


class Partition(Protocol):
    """The samples of every client."""

    @property
    def clients(self) -> int:
        """How many clients there are."""

    def samples(self, client: int) -> int:
        """n_k, how many samples a client holds, without drawing them."""

    def share(self, client: int) -> Tensor:
        """The client's samples as int64 indices into the training set: always the same ones, in the same order."""


def make_partition(
    spec: str,
    *,
    draw: Draw,
    labels: Tensor,
    classes: int,
    clients: int,
    samples_per_client: int,
    seed: int,
    client_train: Tensor | None = None,
) -> Partition:
    """The partition that `spec` describes, over training samples with these labels.

    `given` takes the split from `client_train` (then `clients` must be its number of clients, while `draw` and
    `samples_per_client` have no meaning). All other partitions need data that are not split yet, and give each of
    the `clients` exactly `samples_per_client` samples; nothing is drawn before a client's share is asked for.
    """
    kind, parameter = parse_partition(spec)
    if draw not in get_args(Draw):
        raise unknown_name("draw", draw, get_args(Draw))
    if clients < 1:
        raise UserError(f"clients {clients} is not accepted; accepted: an integer from 1")
    if kind == "given":
        if client_train is None:
            raise UserError(
                "partition 'given' needs data that are already split, and these are not; "
                "accepted: iid, dirichlet:ALPHA, orthogonal:CLUSTERS"
            )
        return GivenPartition(client_train, clients)
    if client_train is not None:
        raise UserError(f"partition '{spec}' cannot be drawn from data that are already split; accepted: given")

    label_array = labels.numpy().astype(np.intp)
    if len(label_array) and not (label_array.min() >= 0 and label_array.max() < classes):
        raise UserError(
            f"labels {label_array.min()} to {label_array.max()} are not accepted; accepted: 0 to {classes - 1}"
        )
    _check_enough(len(label_array), clients, samples_per_client, draw)
    log_weights: LogWeights
    if kind == "dirichlet":
        log_weights = _Dirichlet(parameter, classes, seed)
    elif kind == "orthogonal":
        log_weights = _Orthogonal(int(parameter), classes, clients)
        log_weights.check_enough(np.bincount(label_array, minlength=classes), samples_per_client, draw)
    else:
        log_weights = _Iid(classes)
    drawn = {"overlap": OverlapPartition, "nested": NestedPartition, "disjoint": DisjointPartition}[draw]
    return drawn(label_array, log_weights, clients, samples_per_client, seed)


def label_counts(partition: Partition, labels: Tensor, classes: int, clients: Sequence[int]) -> NDArray[np.int64]:
    """How many samples of each class the clients hold: one row a client, one column a class."""
    rows = [torch.bincount(labels[partition.share(client)].long(), minlength=classes).numpy() for client in clients]
    return np.stack(rows) if rows else np.zeros((0, classes), dtype=np.int64)


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
        _check_client(client, self.clients)
        return self._samples

    def share(self, client: int) -> Tensor:
        _check_client(client, self.clients)
        log_exponentials = self._log_exponentials(client)
        return torch.from_numpy(_smallest(log_exponentials - self._log_weights(client)[self._labels], self._samples))

    def _log_exponentials(self, client: int) -> NDArray[np.float64]:
        """log E_i of every sample, from the client's own stream."""
        return _log_exponentials(len(self._labels), self._seed, client)


class NestedPartition(OverlapPartition):
    """As `overlap`, but with the same E_i for every client, as with one generator seed for all in the authors' code."""

    def _log_exponentials(self, client: int) -> NDArray[np.float64]:  # noqa: ARG002 — the same for every client
        return self._shared_log_exponentials

    @cached_property
    def _shared_log_exponentials(self) -> NDArray[np.float64]:
        return _log_exponentials(len(self._labels), self._seed)


class DisjointPartition(OverlapPartition):
    """Client 0 draws, then client 1 from what is left, …: all at once, when the first share is asked for."""

    def share(self, client: int) -> Tensor:
        _check_client(client, self.clients)
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
        _check_client(client, self.clients)
        return int(self._offsets[client + 1] - self._offsets[client])

    def share(self, client: int) -> Tensor:
        _check_client(client, self.clients)
        return torch.from_numpy(self._order[self._offsets[client] : self._offsets[client + 1]].copy())


def _log_exponentials(size: int, seed: int, *client: int) -> NDArray[np.float64]:
    """log E_i of `size` samples, from one client's stream or (no client) from the one all share."""
    exponentials = stream(seed, "partition samples", *client).standard_exponential(size)
    # An exact zero has probability 1e-17 or so, but its −inf would meet the +inf of a class with weight 0.
    return np.log(np.maximum(exponentials, np.finfo(np.float64).tiny, out=exponentials), out=exponentials)


def _smallest(keys: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where the `count` smallest keys are, the smallest first."""
    chosen = np.argpartition(keys, count - 1)[:count]
    return chosen[np.argsort(keys[chosen], kind="stable")].astype(np.int64, copy=False)


@dataclass(frozen=True)
class _Iid:
    """Equal weights."""

    classes: int

    def __call__(self, client: int) -> NDArray[np.float64]:  # noqa: ARG002 — the same for every client
        return np.zeros(self.classes)


@dataclass(frozen=True)
class _Dirichlet:
    """Log-weights of a symmetric Dirichlet(α) draw for each client, up to a constant, which no order depends on.

    The weights are Gamma(α) variates, and those underflow for small α; their logarithms do not:
    log Gamma(α) = log Gamma(α+1) + log(U)/α with U uniform, so −log U exponential.
    """

    alpha: float
    classes: int
    seed: int

    def __call__(self, client: int) -> NDArray[np.float64]:
        generator = stream(self.seed, "partition classes", client)
        alpha = max(self.alpha, 1e-300)  # below it log(U)/α overflows, and long before it each client has one class
        log_gamma = np.log(generator.standard_gamma(alpha + 1, self.classes))
        return _narrowed(log_gamma - generator.standard_exponential(self.classes) / alpha)


@dataclass(frozen=True)
class _Orthogonal:
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


def _narrowed(log_weights: NDArray[np.float64], widest_gap: float = 1000.0) -> NDArray[np.float64]:
    """The log-weights with every gap between neighbours cut to `widest_gap`.

    |log E| stays below 750, so classes on the two sides of such a gap never mix: no order of keys changes. But in
    float64 log E would be lost beside a log-weight of −1e20, and a class's samples would no longer be drawn at random.
    """
    order = np.argsort(log_weights)
    narrowed = np.zeros_like(log_weights)
    narrowed[order[1:]] = np.minimum(np.diff(log_weights[order]), widest_gap).cumsum()
    return narrowed


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


def _check_client(client: int, clients: int) -> None:
    if not 0 <= client < clients:
        raise IndexError(f"client {client} is not one of the {clients} clients 0 to {clients - 1}")
