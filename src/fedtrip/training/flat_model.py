"""A module as one contiguous float32 vector: everything that travels, is kept or is averaged is such a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedtrip.inputs import Inputs, SampleShape, outputs_of, spec_of
from fedtrip.layout import Layout, Part, in_order
from fedtrip.models.chain import Chain
from fedtrip.training.accelerate import accelerate, plain_copy
from fedtrip.training.lazy_memory import LazyVector, give_back_freed
from fedtrip.vectors import Vectors

CPU = torch.device("cpu")


@dataclass(frozen=True)
class _Place:
    """Where a parameter lies in w, and in which order of its dimensions, if not its own."""

    span: slice
    shape: torch.Size
    order: tuple[int, ...] | None

    def of(self, flat: Tensor) -> Tensor:
        """The parameter's part of a vector like w, in its shape."""
        return in_order(flat[self.span], self.shape, self.order)


class FlatModel:
    """A private copy of a module whose trainable parameters are views of `w` and their gradients views of `g`.

    Shared parameters appear once. Frozen parameters neither travel nor change. Persistent buffers travel beside w,
    floating-point ones as `buffers`, integer ones as `counters`; the others are reset whenever a model is loaded,
    so that nothing passes from one client to the next.

    Without `chain` the copy is made faster for such `inputs` (see `fedtrip.training.accelerate`), and
    weights lie in w in the order in which torch's products are fastest; `watched` names a layer whose output somebody
    looks at. With it they lie as the native engine wants them, which then computes in the module's place.

    On another `device` than the CPU the module, w and g are there; models are loaded from the CPU and given back to it.
    """

    def __init__(
        self,
        module: nn.Module,
        inputs: SampleShape,
        watched: str | None = None,
        chain: Chain | None = None,
        device: torch.device = CPU,
    ) -> None:
        accelerated = (
            accelerate(module, spec_of(inputs), watched) if chain is None else plain_copy(module, chain.orders)
        )
        self.module, self.prepared, self.changes = accelerated.module, accelerated.prepared, accelerated.changes
        self.device = device
        if device != CPU:
            self.module.to(device)
        named = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        size = sum(parameter.numel() for _, parameter in named)
        self._vectors = (LazyVector(size), LazyVector(size)) if device == CPU else ()
        if self._vectors:
            self.w, self.g = (vector.tensor for vector in self._vectors)
        else:
            self.w, self.g = (torch.zeros(size, device=device) for _ in range(2))
        self._places: dict[str, _Place] = {}
        start = 0
        for name, parameter in named:
            place = _Place(
                slice(start, start + parameter.numel()), parameter.shape, accelerated.storage_orders.get(name)
            )
            views = [place.of(flat) for flat in (self.w, self.g)]
            views[0].copy_(parameter.detach())
            parameter.data, parameter.grad = views
            self._places[name] = place
            start = place.span.stop

        persistent = set(self.module.state_dict().keys())
        buffers = list(self.module.named_buffers())
        self._floats = [b for name, b in buffers if name in persistent and b.is_floating_point()]
        self._integers = [b for name, b in buffers if name in persistent and not b.is_floating_point()]
        self._others = [(b, b.clone()) for name, b in buffers if name not in persistent]

    @property
    def layout(self) -> Layout:
        """Where each parameter and buffer lies, by its name in the module; a shared parameter has its first name."""
        owners = {
            id(tensor): type(layer)
            for layer in reversed(list(self.module.modules()))
            for tensor in (*layer._parameters.values(), *layer._buffers.values())
            if tensor is not None
        }
        named = {id(p): name for name, p in reversed(list(self.module.named_parameters()))}
        named |= {id(b): name for name, b in reversed(list(self.module.named_buffers()))}
        trained = [p for p in self.module.parameters() if p.requires_grad]
        parts: dict[str, Part] = {}
        for vector, tensors in (("w", trained), ("buffers", self._floats), ("counters", self._integers)):
            start = 0
            for tensor in tensors:
                stop = start + tensor.numel()
                parts[named[id(tensor)]] = Part(vector, start, stop, tuple(tensor.shape), owners[id(tensor)])
                start = stop
        return Layout(parts)

    def logits(self, x: Inputs) -> Tensor:
        """The module's outputs for inputs that nobody else may see changed; the mode is the module's."""
        return outputs_of(self.module, self.prepared(x))

    def model(self) -> Vectors:
        """A copy of the current model as named vectors."""
        give_back_freed(self.w)
        w = self.w.clone() if self.device == CPU else self.w.to(CPU)
        return {"w": w, **_buffer_vectors([*self._floats, *self._integers])}

    def model_of(self, module: nn.Module) -> Vectors:
        """The model that another module of the same kind holds, such as the one this is a copy of."""
        w = torch.empty(self.w.shape)
        trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
        for place, parameter in zip(self._places.values(), trained, strict=True):
            place.of(w).copy_(parameter.detach())
        named, theirs = [name for name, _ in self.module.named_buffers()], dict(module.named_buffers())
        stored = [theirs[name] for name in named if name in module.state_dict()]
        return {"w": w, **_buffer_vectors(stored)}

    def part(self, name: str, vector: Tensor) -> Tensor | None:
        """The parameter of this name in a vector like w, in its own shape, not a copy; None if there is none."""
        return self._places[name].of(vector) if name in self._places else None

    def in_orders(self, w: Tensor, orders: Mapping[str, tuple[int, ...]]) -> Tensor:
        """A vector like w with its weights in other orders, by name; itself where they are these already."""
        if all(place.order == orders.get(name) for name, place in self._places.items()):
            return w
        ordered = torch.empty_like(w)
        for name, place in self._places.items():
            replace(place, order=orders.get(name)).of(ordered).copy_(place.of(w))
        return ordered

    def load(self, model: Mapping[str, Tensor]) -> None:
        """Make the module hold this model."""
        self.w.copy_(model["w"])
        with torch.no_grad():
            _spread(model.get("buffers"), self._floats)
            _spread(model.get("counters"), self._integers)
            for buffer, initial in self._others:
                buffer.copy_(initial)

    def statistics(self) -> list[Tensor]:
        """Copies of all buffers, as a forward pass in training may change them."""
        return [buffer.clone() for buffer in self.module.buffers()]

    def set_statistics(self, statistics: Sequence[Tensor]) -> None:
        """Put such copies back."""
        with torch.no_grad():
            for buffer, value in zip(self.module.buffers(), statistics, strict=True):
                buffer.copy_(value)

    def give_back(self) -> None:
        """Free the memory of w and g until the next model is loaded."""
        for vector in self._vectors:
            vector.give_back()

    def state_dict(self, model: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The module's state dict with this model in it, each tensor on the CPU, contiguous and its own."""
        self.load(model)
        state = self.module.state_dict()
        return {name: value.detach().to(CPU, copy=True).contiguous() for name, value in state.items()}


def _buffer_vectors(buffers: Sequence[Tensor]) -> Vectors:
    """Buffers one after the other: floating-point ones and integer ones in a vector each, if there are any."""
    floats = [b.detach().reshape(-1).to(CPU, torch.float32) for b in buffers if b.is_floating_point()]
    integers = [b.reshape(-1).to(CPU, torch.int64) for b in buffers if not b.is_floating_point()]
    return {
        **({"buffers": torch.cat(floats)} if floats else {}),
        **({"counters": torch.cat(integers)} if integers else {}),
    }


def _spread(vector: Tensor | None, targets: list[Tensor]) -> None:
    """Copy consecutive parts of a vector into the targets."""
    if vector is None:
        return
    start = 0
    for target in targets:
        target.copy_(vector[start : start + target.numel()].view(target.shape))
        start += target.numel()
