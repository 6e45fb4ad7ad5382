"""Defaults that depend on the data set and the model: the paper's settings (its Table 2 and the head of Table 4)."""

from __future__ import annotations

from fedtrip.data.catalog import KNOWN_SETS

TARGETS = {"digits": 0.90, "mnist": 0.90, "fashion-mnist": 0.75, "emnist": 0.62, "emnist47": 0.62, "cifar-10": 0.50}
TARGETS_OF_MODEL = {("mnist", "mlp"): 0.87}


def default_samples(dataset: str, samples: int, clients: int) -> int:
    """Samples a client, if nothing was said: the paper's, or an equal part of all."""
    known = KNOWN_SETS.get(dataset)
    return known.samples_per_client if known is not None else max(1, samples // clients)


def default_target(dataset: str, model: str) -> float | None:
    """The test accuracy to reach, if nothing was said; None for data that the paper does not use."""
    known = dataset.partition(":")[0]
    return TARGETS_OF_MODEL.get((known, model), TARGETS.get(known))
