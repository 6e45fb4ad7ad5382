"""Chains for the tests: modules drawn by hypothesis, and the same chain with every kind of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from fedtrip.models.chain import Chain, trace_chain
from fedtrip.native.chain import NativeChain
from fedtrip.native.library import using


@dataclass(frozen=True)
class Drawn:
    """A module that is a chain, the shape of its samples, and how many of them there are."""

    module: nn.Sequential
    shape: tuple[int, ...]
    samples: int
    seed: int

    @cached_property
    def chain(self) -> Chain:
        """Traced, with a tap at the input of the last linear layer."""
        return trace_chain(self.module, self.shape, tapped=True)

    def with_kernels(self, name: str) -> NativeChain:
        """The chain in the library, with these kernels."""
        with using(name):
            return self.chain.native()

    def inputs(self, more: int = 0) -> Tensor:
        """Normal numbers: as many samples, and some more."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(self.samples + more, *self.shape, generator=generator)

    def like(self, *shape: int, purpose: int = 1) -> Tensor:
        """Other normal numbers."""
        return torch.randn(*shape, generator=torch.Generator().manual_seed(self.seed * 7 + purpose))


@st.composite
def modules(draw: st.DrawFn, dropout: bool = True) -> Drawn:
    """A few convolutions, poolings and activations on a small image, then one or two linear layers."""
    seed = draw(st.integers(0, 2**20))
    shape = (draw(st.integers(1, 3)), draw(st.integers(4, 13)), draw(st.integers(4, 13)))
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(draw(st.integers(0, 3))):
            layers += draw(_image_layers(_shape(layers, shape), dropout=dropout))
        layers.append(nn.Flatten())
        for _ in range(draw(st.integers(0, 2))):
            layers += [nn.Linear(_shape(layers, shape)[0], draw(st.integers(1, 40)), bias=draw(st.booleans()))]
            layers += [draw(st.sampled_from([nn.ReLU, nn.Tanh, nn.Identity]))()]
            if dropout and draw(st.booleans()):
                layers.append(nn.Dropout(draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))))
        layers.append(nn.Linear(_shape(layers, shape)[0], draw(st.integers(1, 20)), bias=draw(st.booleans())))
    samples = draw(st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 48, 50, 63, 64, 65])))
    return Drawn(nn.Sequential(*layers), shape, samples, seed)


@st.composite
def _image_layers(draw: st.DrawFn, before: tuple[int, ...], *, dropout: bool) -> list[nn.Module]:
    """A convolution or nothing, then an activation and a pooling in either order or none."""
    channels, *sides = before
    layers: list[nn.Module] = []
    if draw(st.integers(0, 4)):
        kernel = tuple(draw(st.integers(1, min(side, 5))) for side in sides)
        padding = tuple(draw(st.integers(0, side - 1)) for side in kernel)
        stride = tuple(draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in sides)
        channels = draw(st.integers(1, 9))
        layers.append(nn.Conv2d(before[0], channels, kernel, stride, padding, bias=draw(st.booleans())))  # type: ignore[arg-type]
        sides = [(side + 2 * p - k) // s + 1 for side, k, p, s in zip(sides, kernel, padding, stride, strict=True)]
    after: list[nn.Module] = [draw(st.sampled_from([nn.ReLU, nn.ReLU, nn.Tanh, nn.Identity]))()]
    pool = draw(_pools(min(sides)))
    if pool is not None:
        after.insert(draw(st.integers(0, 1)), pool)
    if dropout and not draw(st.integers(0, 3)):
        after.append(nn.Dropout(0.3))
    return layers + after


@st.composite
def _pools(draw: st.DrawFn, side: int) -> nn.Module | None:
    kind = draw(st.sampled_from([None, nn.MaxPool2d, nn.MaxPool2d, nn.AvgPool2d]))
    if kind is None or side < 2:
        return None
    kernel = draw(st.integers(2, min(side, 4)))
    stride = draw(st.sampled_from([kernel, kernel, 1, 2]))
    padding = draw(st.integers(0, kernel // 2))
    if kind is nn.MaxPool2d:
        return nn.MaxPool2d(kernel, stride, padding, ceil_mode=draw(st.booleans()))
    return nn.AvgPool2d(kernel, stride, padding, draw(st.booleans()), draw(st.booleans()))


def _shape(layers: list[nn.Module], shape: tuple[int, ...]) -> tuple[int, ...]:
    """What comes out of the layers for one sample."""
    with torch.no_grad():
        return tuple(nn.Sequential(*layers).eval()(torch.zeros(1, *shape)).shape[1:])
