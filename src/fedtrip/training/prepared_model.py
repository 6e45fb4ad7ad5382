"""A federation's module made ready for training: once a process, for all who use it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from fedtrip.experiment.federation import Federation
from fedtrip.training.costs import PassCost, pass_cost
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.lazy_memory import give_back_freed


@dataclass(frozen=True)
class PreparedModel:
    """The module on its flat vector, and what a pass through it costs. To make it takes some trial passes, and the
    memory of two models."""

    flat: FlatModel
    cost: PassCost

    @classmethod
    def of(cls, federation: Federation) -> Self:
        """Of this federation's module."""
        watched = federation.experiment.representation if federation.method.needs_representation else None
        shape = federation.dataset.sample_shape
        cost = pass_cost(federation.module, shape)  # first: its copy is gone when the flat model is made
        flat = FlatModel(federation.module, shape, watched)
        give_back_freed(flat.w)
        return cls(flat, cost)
