"""What the clients hold, and how the final model serves each of them: the fairness question.

A client's accuracy is the per-class test accuracy weighted by the client's label shares,

    accuracy_k = Σ_c share_k[c] · accuracy[c],

as if the test set had the client's own mixture of classes. Classes without a test sample are left out of both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.federation import Federation
from fedtrip.experiment.own_code import to_show
from fedtrip.inputs import pieces
from fedtrip.one_thread import one_thread
from fedtrip.partitions.interface import label_counts
from fedtrip.runs.history import History
from fedtrip.runs.result import Result
from fedtrip.tasks._scores import confusion_matrix
from fedtrip.training.costs import pass_cost
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.trained_state import load_trained_state
from fedtrip.training.trainer import FROZEN_BATCH

Prepare = Callable[[Experiment], Federation]

MOST_CLIENTS = 100
"""Clients that are looked at: a page of a million would show nothing."""
MOST_MACS = 1e13
"""Multiply-adds spent on testing final models again, about a minute or two; beyond it fewer seeds are looked at."""


class NoClasses(Exception):
    """The clients are told by what they hold of each class, and the task has none."""


@dataclass(frozen=True)
class ClientView:
    """Label counts, and each client's accuracy under each variant's final models."""

    counts: dict[int, NDArray[np.int64]]
    """seed → samples, clients × classes"""
    accuracy: dict[str, dict[int, NDArray[np.float64]]]
    """variant → seed → accuracy of each client; without the variants whose models are not kept"""
    confusion: dict[str, tuple[int, NDArray[np.int64]]]
    """variant → seed of its first run with a model, and test samples by class × predicted class"""
    clients: int
    """all clients, of which `counts` may show the first"""
    seeds_scored: int


@one_thread()
def look_at_clients(histories: Mapping[str, Sequence[History]], prepare: Prepare) -> ClientView:
    """The clients of some variants' runs; raises `UserError` where the data or a model cannot be had.

    Raises `NoClasses` where the targets are no classes.
    """

    def prepared(run: History) -> Federation:
        return prepare(to_show(run.experiment))

    first = next(iter(histories.values()))
    if prepared(first[0]).dataset.targets != "classes":
        raise NoClasses
    counts = {run.experiment.seed: counts_of(prepared(run)) for run in first}
    federation = prepared(first[0])
    macs = pass_cost(federation.module, federation.dataset.inputs).forward * len(federation.dataset.y_test)
    kept = {label: [run for run in runs if isinstance(run, Result)] for label, runs in histories.items()}
    models = sum(1 for runs in kept.values() if runs)
    seeds = max(1, int(MOST_MACS / (macs * models))) if models else 0
    accuracy: dict[str, dict[int, NDArray[np.float64]]] = {}
    confusion: dict[str, tuple[int, NDArray[np.int64]]] = {}
    for label, runs in ((label, runs) for label, runs in kept.items() if runs):
        found = {run.experiment.seed: confusion_of(prepared(run), run.state) for run in runs[:seeds]}
        accuracy[label] = {
            run.experiment.seed: accuracy_of_clients(prepared(run), found[run.experiment.seed]) for run in runs[:seeds]
        }
        confusion[label] = next(iter(found.items()))
    scored = max((len(of_seed) for of_seed in accuracy.values()), default=0)
    return ClientView(counts, accuracy, confusion, federation.experiment.clients, scored)


def counts_of(federation: Federation) -> NDArray[np.int64]:
    """Samples of each class that the (first) clients hold, clients × classes."""
    shown = range(min(MOST_CLIENTS, federation.partition.clients))
    return label_counts(federation.partition, federation.dataset.y_train, federation.dataset.classes, shown)


def accuracy_of_clients(federation: Federation, confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """Σ_c share_k[c] · accuracy[c] of every (shown) client k."""
    by_class = accuracy_of_classes(confusion)
    counts = counts_of(federation)[:, ~np.isnan(by_class)].astype(float)
    tested = by_class[~np.isnan(by_class)]
    held = counts.sum(axis=1)
    return np.where(held > 0, counts @ tested / np.maximum(held, 1), np.nan)


def accuracy_of_classes(confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """Test accuracy on each class; not a number for a class without test samples."""
    samples = confusion.sum(axis=1)
    return np.where(samples > 0, confusion.diagonal() / np.maximum(samples, 1), np.nan)


@one_thread()
def confusion_of(federation: Federation, state: Mapping[str, Tensor]) -> NDArray[np.int64]:
    """Test samples of each class (row) by the class that the model predicts (column)."""
    dataset, task = federation.dataset, federation.rules.task
    module = copy.deepcopy(federation.module)
    try:
        load_trained_state(module, state)
    except RuntimeError as problem:
        raise UserError(f"a stored model does not fit its experiment: {problem}") from None
    flat = FlatModel(module.eval(), dataset.inputs)
    flat.module.eval()
    with torch.inference_mode():
        outputs = (flat.logits(dataset.normalised(x)) for x in pieces(dataset.x_test, FROZEN_BATCH))
        predicted = torch.cat([task.predicted_classes(some) for some in outputs])
    if predicted.shape != dataset.y_test.shape:
        raise NoClasses
    return confusion_matrix(dataset.y_test, predicted, max(dataset.classes, int(predicted.max()) + 1))
