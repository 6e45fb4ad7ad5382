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

from fedtrip.errors import UserError
from fedtrip.inputs import Inputs, SampleShape, outputs_of, spec_of
from fedtrip.methods.interface import CostSymbols, Method
from fedtrip.models.representation import Tap, hidden_layer


@dataclass(frozen=True)
class PassCost:
    """Multiply-adds of one sample's forward pass, and of its forward and backward pass in training; and sizes of what
    passes there, on which the cost of some methods' losses depends."""

    forward: int
    training: int
    C: int
    """outputs of a sample, or of one place of a sequence"""
    r: int
    """numbers of a sample's representation; 0 if the module has none"""
    h: int
    """weights of the last hidden fully connected layer; 0 if the module has none"""


def pass_cost(module: nn.Module, inputs: SampleShape, representation: str | None = None) -> PassCost:
    """Count on a batch of two (BatchNorm refuses one) of a copy of the module."""
    module = copy.deepcopy(module)
    x = spec_of(inputs).zeros(2)
    with torch.random.fork_rng(devices=[]), _in_single_operations(module):
        with _FlopCounter() as forward, torch.no_grad():
            outputs = outputs_of(module.eval(), x)
        with _FlopCounter() as training:
            loss = outputs_of(module.train(), x).sum()  # any loss will do: only products of matrices count
            loss.backward()  # type: ignore[no-untyped-call]
        r = _representation_size(module, x, representation)
    hidden = hidden_layer(module)
    return PassCost(
        forward.flops // 4,
        training.flops // 4,
        C=outputs.shape[-1] if outputs.dim() > 1 else 1,
        r=r,
        h=0 if hidden is None else hidden[1].weight.numel(),
    )


def _representation_size(module: nn.Module, x: Inputs, name: str | None) -> int:
    try:
        with Tap(module, name) as tap, torch.no_grad():
            outputs_of(module.eval(), x)
            return tap.take().shape[1]
    except UserError:  # only a method that looks at it refuses such a module
        return 0


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
    *,
    samples: int,
    epochs: int,
    batch_size: int,
    parameters: int,
    forward: float,
    backward: float,
    C: int = 0,
    r: int = 0,
    h: int = 0,
) -> CostSymbols:
    """The letters of the paper's Table 8 for a client with so many samples; C, r and h are other methods'."""
    steps = epochs * math.ceil(samples / batch_size)
    return CostSymbols(K=steps, M=batch_size, n=samples, w=parameters, FP=forward, BP=backward, C=C, r=r, h=h)


def paper_gflops_per_round(method: Method, symbols: CostSymbols, epochs: int) -> float | None:
    """(E·n·FP + attaching operations)/1e9 for one client and round; None if the method does not declare its own."""
    attaching = method.attaching(symbols)
    return None if attaching is None else (epochs * symbols.n * symbols.FP + attaching.flops) / 1e9
