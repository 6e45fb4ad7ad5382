"""What a run costs, counted in two ways.

Ours, honest for any model: multiply-adds (MACs) of matrix products and convolutions as torch's own FLOP counter sees
them on the real module (it counts two for a multiply-add), forward and backward; elementwise work of the optimizer
and of a method's correction as one for each parameter and operation; all clients together.

The paper's: R · (n·FP + attaching operations) for one client, FP the MACs of a forward pass.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from fedtrip.inputs import SampleShape, outputs_of, spec_of
from fedtrip.methods.interface import CostSymbols, Method


@dataclass(frozen=True)
class PassCost:
    """Multiply-adds of one sample's forward pass, and of its forward and backward pass in training."""

    forward: int
    training: int


def pass_cost(module: nn.Module, inputs: SampleShape) -> PassCost:
    """Count on a batch of two (BatchNorm refuses one) of a copy of the module."""
    module = copy.deepcopy(module)
    x = spec_of(inputs).zeros(2)
    with torch.random.fork_rng(devices=[]), _in_single_operations(module):
        with _FlopCounter() as forward, torch.no_grad():
            outputs_of(module.eval(), x)
        with _FlopCounter() as training:
            loss = outputs_of(module.train(), x).sum()  # any loss will do: only products of matrices count
            loss.backward()  # type: ignore[no-untyped-call]
    return PassCost(forward.flops // 4, training.flops // 4)


@contextmanager
def _in_single_operations(module: nn.Module) -> Iterator[None]:
    """Product by product. torch has one operation for a whole layer of a transformer in evaluation, with nested
    tensors, and oneDNN one for a whole layer of an LSTM; the table of formulas knows neither."""
    before = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    if any(isinstance(layer, nn.RNNBase) for layer in module.modules()):
        torch._C._set_mkldnn_enabled(False)  # `torch.backends.mkldnn.flags` warns of GPUs
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before[0])
        torch._C._set_mkldnn_enabled(before[1])


class _FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what torch's own table of formulas says of every operation that runs.

    `torch.utils.flop_counter.FlopCounterMode` does the same, but its first use imports the compiler: a second.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        output = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None and not any(isinstance(part, Tensor) and part.is_nested for part in args):
            self.flops += formula(*args, **(kwargs or {}), out_val=output)
        return output


def symbols_of(
    *, samples: int, epochs: int, batch_size: int, parameters: int, forward: float, backward: float
) -> CostSymbols:
    """The letters of the paper's Table 8 for a client with so many samples."""
    return CostSymbols(
        K=epochs * math.ceil(samples / batch_size), M=batch_size, n=samples, w=parameters, FP=forward, BP=backward
    )


def paper_gflops_per_round(method: Method, symbols: CostSymbols, epochs: int) -> float | None:
    """(E·n·FP + attaching operations)/1e9 for one client and round; None if the method does not declare its own."""
    attaching = method.attaching(symbols)
    return None if attaching is None else (epochs * symbols.n * symbols.FP + attaching.flops) / 1e9
