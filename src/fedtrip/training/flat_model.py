"""A module as one contiguous float32 vector: everything that travels, is kept or is averaged is such a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fedtrip.layout import Layout, Part
from fedtrip.training.accelerate import accelerate, in_order
from fedtrip.training.dense import dense_chain
from fedtrip.training.lazy_memory import LazyVector, give_back_freed
from fedtrip.vectors import Vectors


class FlatModel:
    """A private copy of a module whose trainable parameters are views of `w` and their gradients views of `g`.

    Shared parameters appear once. Frozen parameters neither travel nor change. Persistent buffers travel beside w,
    floating-point ones as `buffers`, integer ones as `counters`; the others are reset whenever a model is loaded,
    so that nothing passes from one client to the next.

    The copy is made faster for inputs of `sample_shape` (see `fedtrip.training.accelerate`), and weights lie in w in
    the order in which their products are fastest. `watched` names a layer whose output somebody looks at. `dense` is
    the module as a chain of fully connected layers, if it is one.
    """

    def __init__(self, module: nn.Module, sample_shape: tuple[int, ...], watched: str | None = None) -> None:
        accelerated = accelerate(module, sample_shape, watched)
        self.module, self.prepared = accelerated.module, accelerated.prepared
        orders = accelerated.storage_orders
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        size = sum(p.numel() for p in parameters)
        self._vectors = LazyVector(size), LazyVector(size)
        self.w, self.g = (vector.tensor for vector in self._vectors)
        self._places: list[tuple[slice, tuple[int, ...] | None]] = []
        start = 0
        for parameter in parameters:
            span, order = slice(start, start + parameter.numel()), orders.get(parameter)
            views = [in_order(flat[span], parameter.shape, order) for flat in (self.w, self.g)]
            views[0].copy_(parameter.detach())
            parameter.data, parameter.grad = views
            self._places.append((span, order))
            start = span.stop

        self.dense = dense_chain(self.module, sample_shape)
        self.changes = (*accelerated.changes, *(["gradient in closed form"] if self.dense is not None else []))

        persistent = set(self.module.state_dict().keys())
        named = list(self.module.named_buffers())
        self._floats = [b for name, b in named if name in persistent and b.is_floating_point()]
        self._integers = [b for name, b in named if name in persistent and not b.is_floating_point()]
        self._others = [(b, b.clone()) for name, b in named if name not in persistent]

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

    def logits(self, x: Tensor) -> Tensor:
        """The module's outputs for inputs that nobody else may see changed; the mode is the module's."""
        if self.dense is not None:
            return self.dense.activations(x)[-1]
        outputs: Tensor = self.module(self.prepared(x))
        return outputs

    def model(self) -> Vectors:
        """A copy of the current model as named vectors."""
        give_back_freed(self.w)
        return {"w": self.w.clone(), **_buffer_vectors([*self._floats, *self._integers])}

    def model_of(self, module: nn.Module) -> Vectors:
        """The model that another module of the same kind holds, such as the one this is a copy of."""
        w = torch.empty_like(self.w)
        trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
        for (span, order), parameter in zip(self._places, trained, strict=True):
            in_order(w[span], parameter.shape, order).copy_(parameter.detach())
        named, theirs = [name for name, _ in self.module.named_buffers()], dict(module.named_buffers())
        stored = [theirs[name] for name in named if name in module.state_dict()]
        return {"w": w, **_buffer_vectors(stored)}

    def load(self, model: Mapping[str, Tensor]) -> None:
        """Make the module hold this model."""
        self.w.copy_(model["w"])
        with torch.no_grad():
            _spread(model.get("buffers"), self._floats)
            _spread(model.get("counters"), self._integers)
            for buffer, initial in self._others:
                buffer.copy_(initial)

    def give_back(self) -> None:
        """Free the memory of w and g until the next model is loaded."""
        for vector in self._vectors:
            vector.give_back()

    def state_dict(self, model: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The module's state dict with this model in it, each tensor contiguous and its own."""
        self.load(model)
        return {name: value.detach().clone().contiguous() for name, value in self.module.state_dict().items()}


def _buffer_vectors(buffers: Sequence[Tensor]) -> Vectors:
    """Buffers one after the other: floating-point ones and integer ones in a vector each, if there are any."""
    floats = [b.detach().reshape(-1).to(torch.float32) for b in buffers if b.is_floating_point()]
    integers = [b.reshape(-1).to(torch.int64) for b in buffers if not b.is_floating_point()]
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
