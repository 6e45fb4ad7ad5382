"""Samples that nobody trains on: a validation set, and test sets of the clients' own.

They are rows of the training set, taken out before any client draws its samples: a row that is held out is in no
client's training samples, however the clients' draws overlap. Of every class the same share is taken (of every client,
where the data come split), and a client's own sets are drawn from the held-out rows by the rule that draws its training
samples, so that they look like these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.data.dataset import DataSet
from fedtrip.errors import UserError
from fedtrip.experiment.complete import CompleteExperiment
from fedtrip.experiment.defaults import shared_samples
from fedtrip.inputs import Inputs
from fedtrip.partitions.given import GivenPartition
from fedtrip.partitions.interface import Partition, divides, make_partition, seen_by
from fedtrip.randomness import permutation, stream


@dataclass(frozen=True)
class HeldOut:
    """What is held out, as rows of the training set; `own_tests` may be rows of the test set."""

    validation: Tensor | None = None
    """the rows on which the server validates"""
    client_validation: Partition | None = None
    """each client's own"""
    own_tests: Partition | None = None
    """each client's own test set"""
    tests_are_of_test_set: bool = False

    @property
    def validates(self) -> bool:
        """Whether there is a validation set."""
        return self.validation is not None or self.client_validation is not None


NOTHING = HeldOut()


@dataclass(frozen=True)
class SampleSets:
    """Which samples serve for what."""

    partition: Partition
    """each client's training samples"""
    held_out: HeldOut


class Pool:
    """A partition of some rows: its shares as rows of the whole set."""

    def __init__(self, partition: Partition, rows: Tensor) -> None:
        self._partition, self._rows = partition, rows
        self.clients = partition.clients

    def samples(self, client: int) -> int:
        return self._partition.samples(client)

    def share(self, client: int) -> Tensor:
        return self._rows[self._partition.share(client)]

    def transformed(self, client: int, samples: Tensor, x: Inputs) -> Inputs:
        return seen_by(self._partition, client, samples, x)


def sample_sets(experiment: CompleteExperiment, dataset: DataSet) -> SampleSets:
    """The clients' training samples, and what is held out of the training set."""
    at_clients = experiment.validation_at == "clients"
    _check_tests(experiment, dataset)
    given = None
    if dataset.client_test is not None:
        given = GivenPartition(dataset.client_test, experiment.clients)
    if not experiment.validation and not experiment.client_test:
        whole = _partition(experiment, dataset, None, experiment.samples_per_client)
        return SampleSets(whole, HeldOut(own_tests=given, tests_are_of_test_set=given is not None))
    # the clients' own samples are what the server's validation leaves of the training set
    clients_have = 1.0 if at_clients else 1 - experiment.validation
    shares = (experiment.client_test * clients_have, experiment.validation)
    test, validation, rest = held_out_rows(_strata(dataset), shares, experiment.seed)
    samples = experiment.samples_per_client
    for_test = _part_of(samples, experiment.client_test, "client_test")
    for_validation = _part_of(samples, experiment.validation if at_clients else 0.0, "validation")
    if samples is not None and samples <= for_test + for_validation:
        raise UserError(
            f"samples_per_client is {samples}, of which {for_test} are held out to test and {for_validation} to "
            "validate; accepted: more samples, or smaller shares, so that some are left to train on"
        )
    left = None if samples is None else samples - for_test - for_validation
    tests = _partition(experiment, dataset, test, for_test) if experiment.client_test else given
    validates_there = at_clients and experiment.validation > 0
    own_validation = _partition(experiment, dataset, validation, for_validation) if validates_there else None
    return SampleSets(
        _partition(experiment, dataset, rest, left),
        HeldOut(
            validation=validation if experiment.validation and not at_clients else None,
            client_validation=own_validation,
            own_tests=tests,
            tests_are_of_test_set=given is not None,
        ),
    )


def held_out_rows(strata: NDArray[np.int64], shares: Sequence[float], seed: int) -> list[Tensor]:
    """⌊share·n + ½⌋ rows of every stratum of n for each share, drawn at random, and last the rows that are left.

    The last row of a stratum is never held out.
    """
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(len(shares) + 1)]
    for members in np.split(order, starts[1:]):
        drawn = members[permutation(stream(seed, "held out", int(strata[members[0]])), len(members))]
        begin = 0
        for part, share in zip(parts, shares, strict=False):
            count = min(int(share * len(members) + 0.5), len(members) - 1 - begin)
            part.append(drawn[begin : begin + count])
            begin += count
        parts[-1].append(drawn[begin:])
    return [torch.from_numpy(np.sort(np.concatenate(part)).astype(np.int64)) for part in parts]


def _strata(dataset: DataSet) -> NDArray[np.int64]:
    """What the same share is held out of: each client's samples, or each class, or all together."""
    if dataset.client_train is not None:
        return dataset.client_train.numpy()
    if dataset.targets == "classes":
        return dataset.y_train.numpy()
    return np.zeros(len(dataset.y_train), dtype=np.int64)


def _part_of(samples: int | None, share: float, name: str) -> int:
    """What of a client's samples is held out; 0 where each client's number is its own."""
    if samples is None or not share:
        return 0
    count = int(share * samples + 0.5)
    if not count:
        raise UserError(
            f"{name} is {share}: of a client's {samples} samples that is none; accepted: at least {0.5 / samples:g}"
        )
    return count


def _partition(experiment: CompleteExperiment, dataset: DataSet, rows: Tensor | None, samples: int | None) -> Partition:
    """The experiment's partition, of some rows of the training set or of all."""
    owners = dataset.client_train
    if rows is not None and owners is not None:  # a client with few samples may have none of them held out
        return Pool(GivenPartition(owners[rows], experiment.clients, may_be_empty=True), rows)
    if rows is not None and samples is not None and divides(experiment.partition):
        samples = _divided(experiment, len(dataset.y_train), len(rows))
    drawn = make_partition(
        experiment.partition,
        draw=experiment.draw,
        labels=dataset.y_train if rows is None else dataset.y_train[rows],
        classes=dataset.classes if dataset.targets == "classes" else 0,
        clients=experiment.clients,
        samples_per_client=samples or 1,  # without meaning where the data come split
        seed=experiment.seed,
        client_train=owners,
        inputs=dataset.inputs,
    )
    return drawn if rows is None else Pool(drawn, rows)


def _divided(experiment: CompleteExperiment, size: int, rows: int) -> int:
    """What a client has in the mean where a division divides some rows of `size`: all of them, or if the experiment
    says fewer samples a client, the same share of these rows as of all."""
    samples = experiment.samples_per_client or 1
    most = -(-shared_samples(experiment, size) // experiment.clients)
    of_rows = -(-rows // experiment.clients)
    return -(-of_rows * samples // most) if samples <= most else samples  # more than there are: refused


def _check_tests(experiment: CompleteExperiment, dataset: DataSet) -> None:
    if dataset.client_test is not None and experiment.client_test:
        raise UserError(
            f"client_test is {experiment.client_test}, but the data come with a test set of each client; accepted: 0"
        )
    if experiment.eval_clients is not None and dataset.client_test is None and not experiment.client_test:
        raise UserError(
            f"eval_clients is {experiment.eval_clients}, but the clients have no test sets; accepted: client_test, the "
            "share of its samples that each client tests on, such as 0.2; or data that come with them"
        )
