"""A federation's module made ready for training: once a process, for all who use it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from fedtrip.experiment.compute import chain_for, tap_of
from fedtrip.experiment.federation import Federation
from fedtrip.models.representation import hidden_layer
from fedtrip.native.library import kernels
from fedtrip.training.costs import PassCost, pass_cost
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.lazy_memory import give_back_freed
from fedtrip.training.native_trainer import NativeScorer, NativeTrainer
from fedtrip.training.torch_trainer import TorchTrainer
from fedtrip.training.trainer import Scorer, Trainer


@dataclass(frozen=True)
class PreparedModel:
    """The module on its flat vector, what computes it, and what a pass through it costs. To make it takes some trial
    passes, and the memory of two models."""

    flat: FlatModel
    cost: PassCost
    trainer: Trainer
    scorer: Scorer
    changes: tuple[str, ...]
    """what is done to compute faster, in words"""
    kernels: str | None
    """what the native engine computes with on this machine; None where it does not compute"""

    @classmethod
    def of(cls, federation: Federation) -> Self:
        """Of this federation's module, computed as its experiment says."""
        experiment, module, task = federation.experiment, federation.module, federation.rules.task
        tapped, representation = tap_of(federation.method, module, experiment.representation)
        hidden = hidden_layer(module) if federation.method.needs_hidden else None
        inputs = federation.dataset.inputs
        cost = pass_cost(
            module, inputs, experiment.representation
        )  # first: its copy is gone when the flat model is made
        chain = chain_for(experiment.compute, module, inputs, tapped=tapped, representation=representation)
        if chain is not None and experiment.compute == "native":
            flat = FlatModel(module, inputs, chain=chain)
            give_back_freed(flat.w)
            native = NativeTrainer(flat, chain, task, hidden=hidden[0] if hidden else None)
            return cls(flat, cost, native, native, (f"native chain: {chain}",), kernels())
        device = torch.device(experiment.device)
        flat = FlatModel(module, inputs, None if hidden or not tapped else representation, device=device)
        give_back_freed(flat.w)
        by_torch = TorchTrainer(flat, task, tapped=tapped, representation=representation, hidden=hidden is not None)
        if chain is None:
            return cls(flat, cost, by_torch, by_torch, flat.changes, None)
        changes = (*flat.changes, f"evaluation by the native chain: {chain}")
        return cls(flat, cost, by_torch, NativeScorer(flat, chain, task), changes, kernels())
