"""Where the parts of a model lie in its flat vectors, so that rules may speak of them by name and by kind of layer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedtrip.errors import UserError, unknown_name
from fedtrip.vectors import Vectors

NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
)
"""The kinds of layers that normalise: found by type, never by name."""


@dataclass(frozen=True)
class Part:
    """One parameter or buffer: where it lies, its shape, and the layer it belongs to."""

    vector: str
    """the flat vector that it is a span of: w, buffers or counters"""
    start: int
    stop: int
    shape: tuple[int, ...]
    layer: type[nn.Module]


@dataclass(frozen=True)
class Layout:
    """The parts of a model by their names in the module."""

    parts: Mapping[str, Part]

    @property
    def norms(self) -> frozenset[str]:
        """Parameters and buffers of the layers that normalise."""
        return frozenset(name for name, part in self.parts.items() if issubclass(part.layer, NORMS))

    @property
    def head(self) -> frozenset[str]:
        """Parameters of the last fully connected layer."""
        linear = [name for name, part in self.parts.items() if issubclass(part.layer, nn.Linear)]
        if not linear:
            raise UserError(
                "the model has no fully connected layer, so it has no head of itself; accepted: another model, or "
                "the name of the layers that are the method's head"
            )
        last = linear[-1].rpartition(".")[0]
        return frozenset(name for name in linear if name.rpartition(".")[0] == last)

    def below(self, prefix: str) -> frozenset[str]:
        """Everything in the submodule of this name."""
        found = frozenset(name for name in self.parts if name == prefix or name.startswith(f"{prefix}."))
        if not found:
            raise unknown_name("layer", prefix, self.parts)
        return found

    def size(self, vector: str) -> int:
        """The length of a flat vector."""
        return max((part.stop for part in self.parts.values() if part.vector == vector), default=0)

    def mask(self, names: Collection[str], vector: str) -> Tensor:
        """Which places of a flat vector belong to these parts."""
        for name in names:
            if name not in self.parts:
                raise unknown_name("part of the model", name, self.parts)
        marks = torch.zeros(self.size(vector), dtype=torch.bool)
        for name in names:
            part = self.parts[name]
            if part.vector == vector:
                marks[part.start : part.stop] = True
        return marks


class Travelling:
    """What of a model's vectors travels, where some parts stay with each client.

    Every vector that is as long as w is cut like w, since a method's other vectors stand for the same parameters.
    """

    def __init__(self, layout: Layout, stays: Collection[str]) -> None:
        vectors = ("w", "buffers", "counters") if stays else ()  # a mask is a quarter of a model
        masks = {vector: layout.mask(stays, vector) for vector in vectors}
        self._stays = {vector: marks for vector, marks in masks.items() if bool(marks.any())}
        self._size = layout.size("w")

    def __bool__(self) -> bool:
        """Whether anything stays at all."""
        return bool(self._stays)

    def cut(self, vectors: Mapping[str, Tensor]) -> Vectors:
        """What travels of the vectors."""
        return {
            name: vector if (marks := self._marks(name, vector)) is None else vector[~marks]
            for name, vector in vectors.items()
        }

    def personal(self, model: Mapping[str, Tensor]) -> Vectors:
        """What stays of a model."""
        return {name: model[name][marks] for name, marks in self._stays.items()}

    def whole(
        self, vectors: Mapping[str, Tensor], rest: Mapping[str, Tensor], personal: Mapping[str, Tensor]
    ) -> Vectors:
        """The vectors again at full length: what did not travel is as in `personal`, or as in `rest`, or zero."""
        found: Vectors = {}
        for name, vector in vectors.items():
            marks = self._of_length(name, vector)
            if marks is None:
                found[name] = vector
                continue
            full = rest[name].to(vector.dtype).clone() if name in rest else torch.zeros(len(marks), dtype=vector.dtype)
            full[~marks] = vector
            if name in personal:
                full[marks] = personal[name]
            found[name] = full
        return found

    def _marks(self, name: str, vector: Tensor) -> Tensor | None:
        if name in self._stays:
            return self._stays[name]
        return self._stays.get("w") if vector.is_floating_point() and vector.numel() == self._size else None

    def _of_length(self, name: str, vector: Tensor) -> Tensor | None:
        """The marks of a vector that was cut."""
        marks = self._stays.get(name, self._stays.get("w"))
        return marks if marks is not None and vector.shape == (int((~marks).sum()),) else None


def in_order(span: Tensor, shape: Sequence[int], order: tuple[int, ...] | None) -> Tensor:
    """A vector as an array of this shape, its dimensions lying in the given order, the slowest first."""
    if order is None:
        return span.view(tuple(shape))
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return span.view([shape[dimension] for dimension in order]).permute(inverse)
