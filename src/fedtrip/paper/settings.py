"""The paper's settings as experiments: which data, model, heterogeneity and methods its tables and figures share."""

from __future__ import annotations

from typing import Any

from fedtrip.comparison.variants import PAPER_METHODS
from fedtrip.experiment.description import Experiment
from fedtrip.paper.entry import Line

MODEL_TITLES = {"mlp": "MLP", "cnn": "CNN", "alexnet": "AlexNet"}
DATASET_TITLES = {
    "mnist": "MNIST", "fashion-mnist": "FMNIST", "emnist": "EMNIST", "emnist47": "EMNIST47", "cifar-10": "CIFAR-10",
}  # fmt: skip
METHOD_TITLES = {
    "fedtrip": "FedTrip", "fedavg": "FedAvg", "fedprox": "FedProx", "slowmo": "SlowMo", "moon": "MOON",
    "feddyn": "FedDyn", "scaffold": "SCAFFOLD", "mimelite": "MimeLite",
}  # fmt: skip
PARTITION_TITLES = {
    "dirichlet:0.1": "Dir-0.1", "dirichlet:0.5": "Dir-0.5", "orthogonal:5": "Orthogonal-5",
    "orthogonal:10": "Orthogonal-10",
}  # fmt: skip
OURS = {"emnist": "emnist47"}
"""A data set of the paper and what stands for it here, by its own name: EMNIST's balanced split is not to be had."""


def short(name: str) -> str:
    """A data set or heterogeneity as it is named in `--case`."""
    return (
        {"fashion-mnist": "fmnist", "cifar-10": "cifar"}.get(name, name).replace(":", "-").replace("dirichlet", "dir")
    )


def paper_experiment(
    dataset: str, model: str, method: str | dict[str, Any], *, partition: str = "dirichlet:0.5", **fields: Any
) -> Experiment:
    """4 of 10 clients, 100 rounds, batches of 50, one local epoch, rate 0.01: the paper's defaults and ours."""
    return Experiment(dataset=dataset, model=model, partition=partition, method=method, **fields)


def six_methods(case: str, dataset: str, model: str, **fields: Any) -> list[Line]:
    """A line for each method of the paper's tables."""
    return [
        Line(case, METHOD_TITLES[method], paper_experiment(dataset, model, method, **fields))
        for method in PAPER_METHODS
    ]
