"""What a model takes: one tensor of samples, or several that belong together, as a tuple or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from fedtrip.errors import UserError

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""Inputs of some samples, which are dimension 0 of every tensor."""


def tensors_of(x: Inputs) -> tuple[Tensor, ...]:
    """Every tensor of the inputs."""
    if isinstance(x, Tensor):
        return (x,)
    return tuple(x.values()) if isinstance(x, dict) else x


def mapped(x: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """The same inputs with every tensor changed so."""
    if isinstance(x, Tensor):
        return change(x)
    if isinstance(x, dict):
        return {name: change(tensor) for name, tensor in x.items()}
    return tuple(change(tensor) for tensor in x)


def count_of(x: Inputs) -> int:
    """How many samples these are."""
    return len(tensors_of(x)[0])


def size_of(x: Inputs) -> int:
    """What they take in memory, in bytes."""
    return sum(tensor.nbytes for tensor in tensors_of(x))


def taken(x: Inputs, rows: Tensor) -> Inputs:
    """The samples in these rows, copied."""
    return mapped(x, lambda tensor: tensor.index_select(0, rows))


def sliced(x: Inputs, rows: slice) -> Inputs:
    """The samples in a slice, as views."""
    return mapped(x, lambda tensor: tensor[rows])


def pieces(x: Inputs, size: int) -> Iterator[Inputs]:
    """The samples in their order, at most so many at a time, as views."""
    for start in range(0, count_of(x), size):
        yield sliced(x, slice(start, start + size))


def joined(parts: list[Inputs]) -> Inputs:
    """The samples of all parts, one part after the other; the parts are of one kind."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat([part for part in parts if isinstance(part, Tensor)])
    if isinstance(first, dict):
        return {name: torch.cat([part[name] for part in parts if isinstance(part, dict)]) for name in first}
    return tuple(torch.cat(tensors) for tensors in zip(*map(tensors_of, parts), strict=True))


def outputs_of(module: nn.Module, x: Inputs) -> Tensor:
    """What the module computes of these inputs; several are its positional or keyword arguments.

    A module that answers with a table, as those of Hugging Face do, means its `logits`.
    """
    answer = module(x) if isinstance(x, Tensor) else module(**x) if isinstance(x, dict) else module(*x)
    return answer if isinstance(answer, Tensor) else _tensor_in(answer)


def _tensor_in(answer: Any) -> Tensor:
    found = answer.get("logits") if isinstance(answer, Mapping) else getattr(answer, "logits", None)
    if not isinstance(found, Tensor):
        raise UserError(
            f"the model returns a {type(answer).__name__} without a tensor called 'logits'; accepted: a tensor, or a "
            "table with one"
        )
    return found


@dataclass(frozen=True)
class InputSpec:
    """Shapes and types of one sample's inputs: what a batch of any size looks like to a model."""

    kind: Literal["one", "tuple", "dict"]
    parts: tuple[tuple[str, tuple[int, ...], torch.dtype], ...]
    """name (of a tuple: its place), shape of one sample, type"""
    vocabulary: int = 0
    """how many token ids there are, if the one input holds such; otherwise 0"""

    @classmethod
    def of(cls, x: Inputs, vocabulary: int = 0) -> Self:
        """That of these inputs."""
        kind: Literal["one", "tuple", "dict"]
        kind = "one" if isinstance(x, Tensor) else "dict" if isinstance(x, dict) else "tuple"
        names = x if isinstance(x, dict) else [str(place) for place in range(len(tensors_of(x)))]
        parts = [(name, tuple(t.shape[1:]), t.dtype) for name, t in zip(names, tensors_of(x), strict=True)]
        return cls(kind, tuple(parts), vocabulary)

    @classmethod
    def numbers(cls, *shape: int) -> Self:
        """One input of float32 numbers of this shape."""
        return cls("one", (("0", tuple(shape), torch.float32),))

    @classmethod
    def tokens(cls, *shape: int, vocabulary: int) -> Self:
        """One input of token ids of this shape."""
        return cls("one", (("0", tuple(shape), torch.int64),), vocabulary)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sample with one input."""
        if self.kind != "one":
            raise UserError(f"the samples have {len(self.parts)} inputs ({self}), where one is needed")
        return self.parts[0][1]

    @property
    def is_numbers(self) -> bool:
        """Whether it is one input of numbers, which every built-in model but those for tokens takes."""
        return self.kind == "one" and self.parts[0][2] == torch.float32

    @property
    def has_integers(self) -> bool:
        """Whether any input holds integers, such as token ids."""
        return any(not dtype.is_floating_point for _, _, dtype in self.parts)

    def zeros(self, count: int) -> Inputs:
        """Inputs of so many samples, all zero."""
        return self.together([torch.zeros(count, *shape, dtype=dtype) for _, shape, dtype in self.parts])

    def together(self, tensors: Sequence[Tensor]) -> Inputs:
        """Inputs of this kind made of a tensor for each part."""
        if self.kind == "one":
            return tensors[0]
        if self.kind == "tuple":
            return tuple(tensors)
        return {name: tensor for (name, _, _), tensor in zip(self.parts, tensors, strict=True)}

    def batch(self, count: int) -> str:
        """How a batch of so many samples is called in a message."""
        if self.kind == "one" and self.is_numbers:
            return f"shape {(count, *self.shape)}"
        return ", ".join(
            f"{'' if self.kind == 'one' else name + ' '}{_type(dtype)} {(count, *shape)}"
            for name, shape, dtype in self.parts
        )

    def __str__(self) -> str:
        if self.kind == "one":
            return f"shape {self.shape} and type {_type(self.parts[0][2])}"
        return ", ".join(f"{name}: shape {shape} and type {_type(dtype)}" for name, shape, dtype in self.parts)


SampleShape = InputSpec | tuple[int, ...]
"""A shape alone stands for one input of numbers of that shape."""


def spec_of(inputs: SampleShape) -> InputSpec:
    """The inputs that are meant."""
    return inputs if isinstance(inputs, InputSpec) else InputSpec.numbers(*inputs)


def _type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
