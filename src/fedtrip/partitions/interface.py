"""What a partition is: which training samples each client holds, computable for one client alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError, unknown_name
from fedtrip.families import PARTITION
from fedtrip.inputs import Inputs, InputSpec
from fedtrip.registry import Rule

Draw = Literal["overlap", "nested", "disjoint"]
"""How the clients' draws relate. `overlap`: each from the whole data set, on its own. `nested`: each from the whole
data set with the same E_i, so that of two clients' samples of a class one set holds the other (two clients with the
same weights hold the same samples). `disjoint`: one client after another from what is left."""
NO_SHAPE = InputSpec.numbers()


class Partition(Protocol):
    """The samples of every client."""

    @property
    def clients(self) -> int:
        """How many clients there are."""

    def samples(self, client: int) -> int:
        """n_k, how many samples a client holds, without drawing them."""

    def share(self, client: int) -> Tensor:
        """The client's samples as int64 indices into the training set: always the same ones, in the same order."""


@runtime_checkable
class FeatureShift(Protocol):
    """What a partition has beside, if its clients see their inputs in their own way."""

    def transformed(self, client: int, samples: Tensor, x: Inputs) -> Inputs:
        """The normalised inputs `x` of these samples as the client sees them; each depends on its own sample alone."""


def seen_by(partition: Partition, client: int, samples: Tensor, x: Inputs) -> Inputs:
    """The normalised inputs of some samples as the client sees them: as they are, unless the partition shifts them."""
    return partition.transformed(client, samples, x) if isinstance(partition, FeatureShift) else x


@dataclass(frozen=True)
class ToPartition:
    """What a rule divides: training samples with these labels, among so many clients."""

    labels: NDArray[np.intp]
    """the class of each sample; where the targets are none, 0"""
    classes: int
    clients: int
    samples_per_client: int
    draw: Draw
    seed: int
    client_train: Tensor | None
    """the client of each sample, where the data come already split"""
    targets: Tensor
    """what is to be learnt of each sample, as the data have it: the labels, or for example numbers"""
    inputs: InputSpec
    """what a sample looks like to a model"""


@dataclass(frozen=True)
class PartitionRule(Rule):
    """Base of the partitions."""

    needs_classes: ClassVar[bool] = False
    """Whether it divides by class, which the targets of a regression do not have."""
    divides: ClassVar[bool] = False
    """Whether no sample has two clients, so that all are divided where `samples_per_client` says nothing else."""
    draws: ClassVar[bool] = False
    """Whether each client draws its samples, and the experiment's `draw` says whether two may have the same one."""
    equal_sizes: ClassVar[bool] = False
    """Whether every client has exactly `samples_per_client` samples."""

    @property
    def text(self) -> str:
        """How an experiment names it."""
        return PARTITION.complete(self).text

    def __call__(self, data: ToPartition) -> Partition:
        """The partition of these data; raises `UserError` where they do not allow it."""
        raise NotImplementedError


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
    inputs: InputSpec = NO_SHAPE,
) -> Partition:
    """The partition that `spec` describes, over training samples with these labels (or other targets).

    `given` takes the split from `client_train` (then `clients` must be its number of clients, while `draw` and
    `samples_per_client` have no meaning). All other partitions need data that are not split yet. Those that divide
    the training set give the clients `samples_per_client` samples in the mean, the others exactly so many to each;
    of these nothing is drawn before a client's share is asked for.
    """
    rule: PartitionRule = PARTITION.make(spec)
    if draw not in get_args(Draw):
        raise unknown_name("draw", draw, get_args(Draw))
    if clients < 1:
        raise UserError(f"clients {clients} is not accepted; accepted: an integer from 1")
    targets = labels
    if classes == 0:
        if rule.needs_classes:
            raise UserError(
                f"partition '{spec}' needs classes, and the targets are none (as of task regression); accepted: iid, "
                "quantity:BETA, feature:SHIFT, bins:BINS for numbers, or given for data that come split"
            )
        labels, classes = torch.zeros(len(labels), dtype=torch.int64), 1
    label_array = labels.numpy().astype(np.intp)
    if client_train is None and len(label_array) and not (label_array.min() >= 0 and label_array.max() < classes):
        raise UserError(
            f"labels {label_array.min()} to {label_array.max()} are not accepted; accepted: 0 to {classes - 1}"
        )
    return rule(
        ToPartition(label_array, classes, clients, samples_per_client, draw, seed, client_train, targets, inputs)
    )


def divides(spec: str) -> bool:
    """Whether the partition of this name divides the training set over the clients."""
    return _class_of(spec).divides


def may_share(spec: str, draw: Draw) -> bool:
    """Whether two clients may hold the same sample."""
    return _class_of(spec).draws and draw != "disjoint"


def sizes_of(partition: Partition, spec: str) -> list[int]:
    """n_k of every client, in order; of a partition whose clients all have the same number, that of one."""
    return [partition.samples(client) for client in range(1 if _class_of(spec).equal_sizes else partition.clients)]


def _class_of(spec: str) -> type[PartitionRule]:
    found = PARTITION.find(PARTITION.read(spec).name)
    assert issubclass(found, PartitionRule)
    return found


def label_counts(partition: Partition, labels: Tensor, classes: int, clients: Sequence[int]) -> NDArray[np.int64]:
    """How many samples of each class the clients hold: one row a client, one column a class."""
    rows = [torch.bincount(labels[partition.share(client)].long(), minlength=classes).numpy() for client in clients]
    return np.stack(rows) if rows else np.zeros((0, classes), dtype=np.int64)


def check_not_split(rule: PartitionRule, data: ToPartition) -> None:
    """Refuse to divide what is divided."""
    if data.client_train is not None:
        raise UserError(f"partition '{rule.text}' cannot be drawn from data that are already split; accepted: given")


def check_client(client: int, clients: int) -> None:
    """Refuse the number of a client that there is none of."""
    if not 0 <= client < clients:
        raise IndexError(f"client {client} is not one of the {clients} clients 0 to {clients - 1}")
