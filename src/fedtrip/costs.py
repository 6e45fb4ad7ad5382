"""What a run costs, counted in two ways.

Ours, honest for any model: multiply-adds (MACs) of matrix products and convolutions as torch's own FLOP counter sees
them on the real module (it counts two for a multiply-add), forward and backward; elementwise work of the optimizer
and of a method's correction as one for each parameter and operation; all clients together.

The paper's: R · (n·FP + attaching operations) for one client, FP the MACs of a forward pass.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from fedtrip.methods.base import CostSymbols, Method


@dataclass(frozen=True)
class PassCost:
    """Multiply-adds of one sample's forward pass, and of its forward and backward pass in training."""

    forward: int
    training: int


def pass_cost(module: nn.Module, sample_shape: tuple[int, ...]) -> PassCost:
    """Count on a batch of two (BatchNorm refuses one) of a copy of the module."""
    module = copy.deepcopy(module)
    x, y = torch.zeros(2, *sample_shape), torch.zeros(2, dtype=torch.int64)
    with torch.random.fork_rng(devices=[]):
        with FlopCounterMode(display=False) as forward, torch.no_grad():
            module.eval()(x)
        with FlopCounterMode(display=False) as training:
            functional.cross_entropy(module.train()(x), y).backward()  # type: ignore[no-untyped-call]
    return PassCost(forward.get_total_flops() // 4, training.get_total_flops() // 4)


def paper_gflops_per_round(
    method: Method, *, samples: int, epochs: int, batch_size: int, parameters: int, forward: float
) -> float | None:
    """(n·FP + attaching operations)/1e9 for one client and round; None if the method does not declare its own."""
    symbols = CostSymbols(
        K=epochs * math.ceil(samples / batch_size),
        M=batch_size,
        n=epochs * samples,
        w=parameters,
        FP=forward,
        BP=2 * forward,
    )
    attaching = method.attaching_flops(symbols)
    return None if attaching is None else (symbols.n * forward + attaching) / 1e9
