"""The layers that the native engine has, made of torch's: what each call of a traced module becomes.

A `ChainBuilder` follows one sample through the module. Its shape is (channels, height, width) or (features,). Whatever
the engine does not compute exactly as torch does is refused with `NotAChain`, and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedtrip.native.chain import Kind, Layer

Pair = tuple[int, int]


class NotAChain(Exception):
    """Why a module is no chain that the native engine can compute."""


@dataclass
class ChainBuilder:
    """The layers so far, and the shape of what comes out of them."""

    shape: tuple[int, ...]
    starts: Mapping[str, int]
    """where each parameter begins in the flat vector, by its name in the module"""
    layers: list[Layer] = field(default_factory=list)
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """the order of a weight's dimensions in the flat vector, slowest first, where it is not its own"""
    used: set[str] = field(default_factory=set)
    """the parameters that have had their layer"""
    is_flat: bool = False
    """whether the engine sees features; a shape (c, 1, 1) may already be flat for it"""

    def add(self, kind: Kind, **numbers: Any) -> None:
        """One more layer."""
        self.layers.append(Layer(kind, **numbers))

    def image(self, what: str) -> tuple[int, int, int]:
        """Channels, height and width of what comes in."""
        if len(self.shape) != 3 or self.is_flat:
            raise NotAChain(f"{what} on an input of shape {self.shape}")
        return self.shape[0], self.shape[1], self.shape[2]

    def parameters(self, name: str, layer: nn.Conv2d | nn.Linear) -> dict[str, int]:
        """Where a layer's weight and bias begin; bias −1 if there is none."""
        weight, bias = f"{name}.weight".lstrip("."), f"{name}.bias".lstrip(".")
        taken = {weight} if layer.bias is None else {weight, bias}
        if taken & self.used:
            raise NotAChain(f"layer '{name}' runs more than once")
        self.used |= taken
        return {"weight": self.starts[weight], "bias": -1 if layer.bias is None else self.starts[bias]}

    def flatten(self) -> None:
        """(c, h, w) → c·h·w features."""
        if not self.is_flat:
            self.add(Kind.FLATTEN)
        self.shape, self.is_flat = (math.prod(self.shape),), True

    def pool(self, kind: Kind, window: _Window, divisor: int = 0) -> None:
        """A pooling layer."""
        channels, height, width = self.image("pooling")
        out_h, out_w = (window.places(side, axis) for axis, side in enumerate((height, width)))
        self.add(kind, divisor=divisor, **window.numbers(), out_h=out_h, out_w=out_w)
        self.shape = (channels, out_h, out_w)


@dataclass(frozen=True)
class _Window:
    """What moves over an image in convolutions and pooling."""

    kernel: Pair
    stride: Pair
    padding: Pair
    ceil: bool = False

    def places(self, side: int, axis: int) -> int:
        """How often it fits into a side; torch's formula, which in ceil mode leaves out a place in the padding."""
        kernel, stride, padding = self.kernel[axis], self.stride[axis], self.padding[axis]
        reach = side + 2 * padding - kernel
        if reach < 0:
            raise NotAChain(f"a window of {kernel} on a side of {side}")
        if not self.ceil:
            return reach // stride + 1
        places = -(-reach // stride) + 1
        return places - 1 if (places - 1) * stride >= side + padding else places

    def numbers(self) -> dict[str, int]:
        """As the fields of a layer."""
        named = {"kernel": self.kernel, "stride": self.stride, "pad": self.padding}
        return {f"{name}_{axis}": pair[i] for name, pair in named.items() for i, axis in enumerate("hw")}


def _pair(value: object) -> Pair:
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, (tuple, list)) and value and all(isinstance(part, int) for part in value):
        return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])
    raise NotAChain(f"{value!r} where numbers are")


def _convolution(chain: ChainBuilder, name: str, layer: nn.Conv2d) -> None:
    if layer.groups != 1 or layer.dilation != (1, 1) or layer.padding_mode != "zeros":
        raise NotAChain(f"layer '{name}' is a convolution with groups, dilation or padding other than zeros")
    kernel, padding = _pair(layer.kernel_size), _padding(name, layer)
    channels, outputs = layer.in_channels, layer.out_channels
    if len(chain.shape) != 3 or chain.shape[0] != channels:
        raise NotAChain(f"layer '{name}' is a convolution on an input of shape {chain.shape}")
    if chain.shape[1:] == kernel and padding == (0, 0):  # its kernel covers its whole input: a fully connected layer
        inputs = math.prod(chain.shape)
        chain.flatten()
        chain.add(Kind.LINEAR, inputs=inputs, outputs=outputs, **chain.parameters(name, layer))
        chain.orders[f"{name}.weight".lstrip(".")] = (1, 2, 3, 0)
        chain.shape = (outputs, 1, 1)
        return
    _, height, width = chain.image(f"layer '{name}', a convolution,")
    window = _Window(kernel, _pair(layer.stride), padding)
    out_h, out_w = window.places(height, 0), window.places(width, 1)
    chain.add(
        Kind.CONVOLUTION, inputs=channels, outputs=outputs, **window.numbers(), out_h=out_h, out_w=out_w,
        **chain.parameters(name, layer),
    )  # fmt: skip
    chain.shape = (outputs, out_h, out_w)


def _padding(name: str, layer: nn.Conv2d) -> Pair:
    if layer.padding == "valid":
        return 0, 0
    if layer.padding == "same":
        kernel = _pair(layer.kernel_size)
        if any(side % 2 == 0 for side in kernel):
            raise NotAChain(f"layer '{name}' is padded more on one side than on the other")
        return kernel[0] // 2, kernel[1] // 2
    return _pair(layer.padding)


def _linear(chain: ChainBuilder, name: str, layer: nn.Linear) -> None:
    if chain.shape != (layer.in_features,):
        raise NotAChain(f"layer '{name}' is a linear layer on an input of shape {chain.shape}")
    chain.add(
        Kind.LINEAR, inputs=layer.in_features, outputs=layer.out_features, **chain.parameters(name, layer)
    )  # fmt: skip
    chain.orders[f"{name}.weight".lstrip(".")] = (1, 0)
    chain.shape = (layer.out_features,)


def _dropout(chain: ChainBuilder, name: str, layer: nn.Dropout) -> None:
    if not 0 <= layer.p < 1:
        raise NotAChain(f"layer '{name}' drops everything")
    if layer.p > 0:
        chain.add(Kind.DROPOUT, probability=float(layer.p))


def _relu(chain: ChainBuilder, inplace: bool = False) -> None:  # noqa: ARG001
    chain.add(Kind.RELU)


def _tanh(chain: ChainBuilder) -> None:
    chain.add(Kind.TANH)


def _nothing(chain: ChainBuilder) -> None:
    """What changes neither numbers nor shape."""


def _flatten(chain: ChainBuilder, start_dim: int = 0, end_dim: int = -1) -> None:
    last = len(chain.shape)
    if start_dim not in (1, -last) or end_dim not in (-1, last):
        raise NotAChain(f"it flattens dimensions {start_dim} to {end_dim}")
    chain.flatten()


def _max_pool(
    chain: ChainBuilder,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    dilation: object = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> None:
    if return_indices or _pair(dilation) != (1, 1):
        raise NotAChain("max-pooling with indices or dilation")
    kernel = _pair(kernel_size)
    chain.pool(Kind.MAX_POOL, _Window(kernel, _pair(stride) if stride else kernel, _pair(padding), bool(ceil_mode)))


def _average_pool(
    chain: ChainBuilder,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> None:
    kernel = _pair(kernel_size)
    window = _Window(kernel, _pair(stride) if stride else kernel, _pair(padding), bool(ceil_mode))
    if divisor_override is not None and divisor_override < 1:
        raise NotAChain(f"average pooling with the divisor {divisor_override}")
    chain.pool(Kind.AVERAGE_POOL, window, divisor_override or (-1 if count_include_pad else 0))


def _adaptive_average_pool(chain: ChainBuilder, output_size: object) -> None:
    if len(chain.shape) != 3:
        raise NotAChain(f"pooling on an input of shape {chain.shape}")
    sides = chain.shape[1:]
    wanted = output_size if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    out = _pair([side if places is None else places for side, places in zip(sides, wanted, strict=True)])
    if any(places < 1 or side % places for side, places in zip(sides, out, strict=True)):
        raise NotAChain(f"adaptive pooling of {sides} to {out}, whose windows are not all of one size")
    if sides != out:
        kernel = sides[0] // out[0], sides[1] // out[1]
        chain.pool(Kind.AVERAGE_POOL, _Window(kernel, kernel, (0, 0)), -1)


MODULES: dict[type[nn.Module], Callable[[ChainBuilder, str, Any], None]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _linear,
    nn.Dropout: _dropout,
    nn.ReLU: lambda chain, _name, _layer: _relu(chain),
    nn.Tanh: lambda chain, _name, _layer: _tanh(chain),
    nn.Identity: lambda chain, _name, _layer: _nothing(chain),
    nn.Flatten: lambda chain, _name, layer: _flatten(chain, layer.start_dim, layer.end_dim),
    nn.MaxPool2d: lambda chain, _name, layer: _max_pool(
        chain, layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode, layer.return_indices
    ),
    nn.AvgPool2d: lambda chain, _name, layer: _average_pool(
        chain, layer.kernel_size, layer.stride, layer.padding, layer.ceil_mode, layer.count_include_pad,
        layer.divisor_override,
    ),
    nn.AdaptiveAvgPool2d: lambda chain, _name, layer: _adaptive_average_pool(chain, layer.output_size),
}  # fmt: skip
"""Layers by their exact class: a subclass may compute anything."""

FUNCTIONS: dict[object, Callable[..., None]] = {
    functional.relu: _relu,
    torch.relu: _relu,
    torch.relu_: _relu,
    torch.tanh: _tanh,
    torch.flatten: _flatten,
    functional.max_pool2d: _max_pool,
    torch.max_pool2d: lambda chain, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False: _max_pool(
        chain, kernel_size, stride, padding, dilation, ceil_mode
    ),
    functional.avg_pool2d: _average_pool,
    functional.adaptive_avg_pool2d: _adaptive_average_pool,
}
"""Functions of torch, called with what they get beside their input."""

METHODS: dict[str, Callable[..., None]] = {
    "relu": _relu,
    "relu_": _relu,
    "tanh": _tanh,
    "tanh_": _tanh,
    "flatten": _flatten,
    "contiguous": _nothing,
}
"""Methods of a tensor, by name."""
