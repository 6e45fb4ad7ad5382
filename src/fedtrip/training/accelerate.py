"""A module made faster for the CPU without changing what it computes (up to rounding).

What is done follows from the module's structure and the shapes alone, never from a timing, so that every process and
every run chooses the same and gets the same bits. The user's module is not touched: this works on a copy.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedtrip.models.check import left_as_it_is
from fedtrip.training.conv_pool import FewChannelConvPool, is_few_channel_convolution
from fedtrip.training.dense import has_hooks, is_plain_sequence
from fedtrip.training.pooling import MaxPool2x2, is_2x2_pool

CHANNELS_LAST_FROM = 32
"""Input channels of the widest convolution from which the channels-last layout pays: AlexNet 1.07×
in training and 1.4× in evaluation, LeNet nothing."""


@dataclass(frozen=True)
class Accelerated:
    """A module that computes the same, and what was changed in it."""

    module: nn.Module
    channels_last: bool
    storage_orders: dict[Tensor, tuple[int, ...]]
    """the order of a weight's dimensions, slowest first, in which its products are fastest, where it is not its own"""
    changes: tuple[str, ...]
    changes_input: bool
    """whether the module works in place on its input"""

    def prepared(self, x: Tensor) -> Tensor:
        """Inputs in the memory layout that the module likes; a copy if the module would change them."""
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return x.clone() if self.changes_input else x


def accelerate(module: nn.Module, sample_shape: tuple[int, ...], watched: str | None = None) -> Accelerated:
    """A faster copy of a module for inputs of this shape; the output of the layer named `watched` stays what it is.

    It is tried once, forward and backward. A module that depends on how its weights or activations lie in memory
    (`x.view(len(x), -1)` on channels-last activations) fails there, and is then left as it is.
    """
    for make in (partial(_faster_copy, module, sample_shape, watched), partial(_plain_copy, module)):
        try:
            return _tried(make(), sample_shape)
        except Exception:
            continue
    return _plain_copy(module)  # it fails in any case: let it do so where the user can see it


def _tried(attempt: Accelerated, sample_shape: tuple[int, ...]) -> Accelerated:
    """What a pass forward and backward through a copy says of its input; raises what the module raises."""
    trial = copy.deepcopy(attempt.module)
    for ours, theirs in zip(attempt.module.parameters(), trial.parameters(), strict=True):
        if ours in attempt.storage_orders:
            theirs.data = in_order(theirs.data.new_empty(theirs.numel()), ours.shape, attempt.storage_orders[ours])
    return replace(attempt, changes_input=_changes_its_input(trial, attempt.prepared, sample_shape))


def in_order(span: Tensor, shape: Sequence[int], order: tuple[int, ...] | None) -> Tensor:
    """A vector as an array of this shape, its dimensions lying in the given order, the slowest first."""
    if order is None:
        return span.view(tuple(shape))
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return span.view([shape[dimension] for dimension in order]).permute(inverse)


def _plain_copy(module: nn.Module) -> Accelerated:
    return Accelerated(copy.deepcopy(module), False, {}, (), changes_input=False)


def _faster_copy(module: nn.Module, sample_shape: tuple[int, ...], watched: str | None) -> Accelerated:
    module = copy.deepcopy(module)
    changes: Counter[str] = Counter()
    widest = max((layer.in_channels for layer in module.modules() if isinstance(layer, nn.Conv2d)), default=0)
    channels_last = len(sample_shape) == 3 and widest >= CHANNELS_LAST_FROM
    if channels_last:
        changes["channels-last layout"] += 1
    shapes = _input_shapes(module, sample_shape)
    spared = module.get_submodule(watched) if watched else None
    for layers in [layers for layers in module.modules() if is_plain_sequence(layers) and layers in shapes]:
        changes["pooling before ReLU"] += _pool_before_relu(layers, shapes, spared)
        if not channels_last:
            changes["convolution and pooling in one"] += _convolve_and_pool(layers, shapes, spared)
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            shape = shapes.get(layer)
            if shape is None or has_hooks(layer):
                continue
            if is_2x2_pool(layer) and not channels_last:
                setattr(parent, name, MaxPool2x2())
                changes["2×2 pooling by slices"] += 1
            elif _covers_input(layer, shape):
                layer.__class__ = WholeInputConv2d  # same parameters and attributes, another forward pass
                changes["convolution as a linear layer"] += 1
    orders: dict[Tensor, tuple[int, ...]] = {}
    for layer in module.modules():
        weight = layer._parameters.get("weight")  # not a weight that is computed, as by spectral_norm
        if weight is None:
            continue
        if isinstance(layer, nn.Linear):
            orders[weight] = (1, 0)
        elif isinstance(layer, nn.Conv2d) and channels_last:
            orders[weight] = (0, 2, 3, 1)
    changes["linear weights transposed"] += sum(order == (1, 0) for order in orders.values())
    described = tuple(f"{n} × {what}" for what, n in changes.items() if n)
    return Accelerated(module, channels_last, orders, described, changes_input=False)


def _changes_its_input(module: nn.Module, prepared: Callable[[Tensor], Tensor], sample_shape: tuple[int, ...]) -> bool:
    """Run a throw-away copy of a module both ways and look whether its input was written to."""
    x = prepared(torch.zeros(2, *sample_shape))
    before = x._version
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        module.train()(x).sum().backward()
        with torch.no_grad():
            module.eval()(x)
    return x._version != before


class WholeInputConv2d(nn.Conv2d):
    """A convolution whose kernel covers its whole input: a fully connected layer."""

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-2:] != self.kernel_size:  # a module may be given other inputs than the ones it was tried with
            return super().forward(input)
        flat = functional.linear(input.flatten(1), self.weight.flatten(1), self.bias)
        return flat[:, :, None, None]


def _covers_input(layer: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether the kernel of a plain convolution is exactly as large as its input."""
    if type(layer) is not nn.Conv2d or len(shape) != 4:
        return False
    return layer.kernel_size == shape[-2:] and (layer.padding, layer.groups, layer.dilation) == ((0, 0), 1, (1, 1))


def _pool_before_relu(layers: nn.Sequential, ran_once: Mapping[nn.Module, object], spared: nn.Module | None) -> int:
    """max-pool(relu(x)) = relu(max-pool(x)), to the bit, and the ReLU then sees a quarter of the values."""
    changed = 0
    for index, relu, pool in _neighbours(layers, ran_once, spared):
        if type(relu) is nn.ReLU and type(pool) is nn.MaxPool2d and not pool.return_indices:
            layers[index], layers[index + 1] = pool, relu
            changed += 1
    return changed


def _convolve_and_pool(layers: nn.Sequential, ran_once: Mapping[nn.Module, object], spared: nn.Module | None) -> int:
    """A convolution of few channels takes over the 2×2 pooling behind it."""
    changed = 0
    for index, convolution, pool in _neighbours(layers, ran_once, spared):
        if is_few_channel_convolution(convolution) and is_2x2_pool(pool):
            convolution.__class__ = FewChannelConvPool  # same parameters and attributes, another forward pass
            layers[index + 1] = nn.Identity()
            changed += 1
    return changed


def _neighbours(
    layers: nn.Sequential, ran_once: Mapping[nn.Module, object], spared: nn.Module | None
) -> Iterator[tuple[int, nn.Module, nn.Module]]:
    """Each layer and the next one, where nobody looks at what passes between them."""
    for index in range(len(layers) - 1):
        first, second = layers[index], layers[index + 1]
        if first is not spared and all(layer in ran_once and not has_hooks(layer) for layer in (first, second)):
            yield index, first, second


def _input_shapes(module: nn.Module, sample_shape: tuple[int, ...]) -> dict[nn.Module, tuple[int, ...]]:
    """The shape of the input of every layer that runs exactly once in a forward pass."""
    seen: dict[nn.Module, list[tuple[int, ...]]] = {}

    def look(layer: nn.Module, inputs: tuple[object, ...]) -> None:
        first = inputs[0] if inputs else None
        shape = tuple(first.shape) if isinstance(first, Tensor) and not first.is_nested else ()  # which has none
        seen.setdefault(layer, []).append(shape)

    hooks = [layer.register_forward_pre_hook(look) for layer in module.modules()]
    try:
        with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
            module.eval()(torch.zeros(2, *sample_shape))
    finally:
        for hook in hooks:
            hook.remove()
    return {layer: shapes[0] for layer, shapes in seen.items() if len(shapes) == 1}
