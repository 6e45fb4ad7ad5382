"""A module made faster for torch on the CPU without changing what it computes (up to rounding).

For what the native engine does not compute. What is done follows from the module's structure and the shapes alone,
never from a timing, so that every process and every run chooses the same and gets the same bits. The user's module is
not touched: this works on a copy.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn

from fedtrip.inputs import Inputs, InputSpec, mapped, outputs_of, tensors_of
from fedtrip.layout import in_order
from fedtrip.models.check import has_hooks, left_as_it_is

CHANNELS_LAST_FROM = 32
"""Input channels of the widest convolution from which the channels-last layout pays: AlexNet 1.07×
in training and 1.4× in evaluation, LeNet nothing."""


@dataclass(frozen=True)
class Accelerated:
    """A module that computes the same, and what was changed in it."""

    module: nn.Module
    channels_last: bool
    storage_orders: Mapping[str, tuple[int, ...]]
    """the order of a weight's dimensions, slowest first, in which its products are fastest, where it is not its own"""
    changes: tuple[str, ...]
    changes_input: bool
    """whether the module works in place on its input"""

    def prepared(self, x: Inputs) -> Inputs:
        """Inputs in the memory layout that the module likes; a copy if the module would change them."""
        if self.channels_last and isinstance(x, Tensor):
            x = x.contiguous(memory_format=torch.channels_last)
        return mapped(x, Tensor.clone) if self.changes_input else x


def accelerate(module: nn.Module, inputs: InputSpec, watched: str | None = None) -> Accelerated:
    """A faster copy of a module for such inputs; the output of the layer named `watched` stays what it is.

    It is tried once, forward and backward. A module that depends on how its weights or activations lie in memory
    (`x.view(len(x), -1)` on channels-last activations) fails there, and is then left as it is.
    """
    for make in (partial(_faster_copy, module, inputs, watched), partial(plain_copy, module)):
        try:
            return _tried(make(), inputs)
        except Exception:
            continue
    return plain_copy(module)  # it fails in any case: let it do so where the user can see it


def plain_copy(module: nn.Module, orders: Mapping[str, tuple[int, ...]] | None = None) -> Accelerated:
    """A copy without any change, its weights in these orders."""
    return Accelerated(copy.deepcopy(module), False, orders or {}, (), changes_input=False)


def _tried(attempt: Accelerated, inputs: InputSpec) -> Accelerated:
    """What a pass forward and backward through a copy says of its input; raises what the module raises."""
    trial = copy.deepcopy(attempt.module)
    for name, parameter in trial.named_parameters():
        if name in attempt.storage_orders:
            order = attempt.storage_orders[name]
            parameter.data = in_order(parameter.data.new_empty(parameter.numel()), parameter.shape, order)
    return replace(attempt, changes_input=_changes_its_input(trial, attempt.prepared, inputs))


def _faster_copy(module: nn.Module, inputs: InputSpec, watched: str | None) -> Accelerated:
    module = copy.deepcopy(module)
    changes: Counter[str] = Counter()
    widest = max((layer.in_channels for layer in module.modules() if isinstance(layer, nn.Conv2d)), default=0)
    channels_last = inputs.is_numbers and len(inputs.shape) == 3 and widest >= CHANNELS_LAST_FROM
    if channels_last:
        changes["channels-last layout"] += 1
    ran_once = _layers_that_run_once(module, inputs)
    spared = module.get_submodule(watched) if watched else None
    for layers in [layers for layers in module.modules() if _is_plain_sequence(layers) and layers in ran_once]:
        changes["pooling before ReLU"] += _pool_before_relu(layers, ran_once, spared)
    names = {parameter: name for name, parameter in module.named_parameters()}
    orders: dict[str, tuple[int, ...]] = {}
    for layer in module.modules():
        weight = layer._parameters.get("weight")  # not a weight that is computed, as by spectral_norm
        if weight is None:
            continue
        if isinstance(layer, nn.Linear):
            orders[names[weight]] = (1, 0)
        elif isinstance(layer, nn.Conv2d) and channels_last:
            orders[names[weight]] = (0, 2, 3, 1)
    changes["linear weights transposed"] += sum(order == (1, 0) for order in orders.values())
    described = tuple(f"{n} × {what}" for what, n in changes.items() if n)
    return Accelerated(module, channels_last, orders, described, changes_input=False)


def _changes_its_input(module: nn.Module, prepared: Callable[[Inputs], Inputs], inputs: InputSpec) -> bool:
    """Run a throw-away copy of a module both ways and look whether its input was written to."""
    x = prepared(inputs.zeros(2))
    before = [tensor._version for tensor in tensors_of(x)]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        outputs_of(module.train(), x).sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            outputs_of(module.eval(), x)
    return [tensor._version for tensor in tensors_of(x)] != before


def _is_plain_sequence(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether a module does nothing but run its children one after the other."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _pool_before_relu(layers: nn.Sequential, ran_once: Collection[nn.Module], spared: nn.Module | None) -> int:
    """max-pool(relu(x)) = relu(max-pool(x)), to the bit, and the ReLU then sees a quarter of the values."""
    changed = 0
    for index, relu, pool in _neighbours(layers, ran_once, spared):
        if type(relu) is nn.ReLU and type(pool) is nn.MaxPool2d and not pool.return_indices:
            layers[index], layers[index + 1] = pool, relu
            changed += 1
    return changed


def _neighbours(
    layers: nn.Sequential, ran_once: Collection[nn.Module], spared: nn.Module | None
) -> Iterator[tuple[int, nn.Module, nn.Module]]:
    """Each layer and the next one, where nobody looks at what passes between them."""
    for index in range(len(layers) - 1):
        first, second = layers[index], layers[index + 1]
        if first is not spared and all(layer in ran_once and not has_hooks(layer) for layer in (first, second)):
            yield index, first, second


def _layers_that_run_once(module: nn.Module, inputs: InputSpec) -> set[nn.Module]:
    """The layers that run exactly once in a forward pass."""
    runs: Counter[nn.Module] = Counter()
    hooks = [layer.register_forward_pre_hook(lambda layer, _: runs.update([layer])) for layer in module.modules()]
    try:
        with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
            outputs_of(module.eval(), inputs.zeros(2))
    finally:
        for hook in hooks:
            hook.remove()
    return {layer for layer, count in runs.items() if count == 1}
