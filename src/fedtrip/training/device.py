"""Where clients train and models are scored: the CPU, or an accelerator that torch knows.

Only `training/` knows of it: whatever travels, is kept or is averaged is on the CPU. What lies on the device is one
client's model and its optimizer's state while it trains, and the samples of recent clients.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from fedtrip.inputs import Inputs, mapped
from fedtrip.vectors import Vectors

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
"""cuBLAS computes the same bits again only with a workspace of a fixed size, which it is told before it starts."""


def placed(x: Inputs, device: torch.device) -> Inputs:
    """Inputs on the device; themselves if they are there."""
    return mapped(x, lambda tensor: tensor.to(device))


def vectors_on(vectors: Mapping[str, Tensor], device: torch.device) -> Vectors:
    """Vectors on the device; themselves if they are there."""
    return {name: vector.to(device) for name, vector in vectors.items()}


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """On an accelerator: only algorithms that give the same bits again; what has none is an error of torch's."""
    if device.type == "cpu":
        yield
        return
    os.environ.setdefault(CUBLAS, ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def seed_dropout(key: int, device: torch.device) -> None:
    """What dropout draws from in the next training."""
    torch.default_generator.manual_seed(key)
    if device.type != "cpu":
        there = torch.get_device_module(device)
        (there.manual_seed if device.type == "mps" else there.manual_seed_all)(key)  # mps is one, and has no "all"


def dropout_state(device: torch.device) -> tuple[Tensor, ...]:
    """Where dropout's draws are, so that a batch can be seen again through the same masks."""
    here = torch.default_generator.get_state()
    return (here,) if device.type == "cpu" else (here, torch.get_device_module(device).get_rng_state(device))


def set_dropout_state(state: tuple[Tensor, ...], device: torch.device) -> None:
    """Back to where `dropout_state` was asked for."""
    torch.default_generator.set_state(state[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state[1], device)
