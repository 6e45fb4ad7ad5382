"""Whether a module can be trained here: what it must have, and what it must answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedtrip.errors import UserError
from fedtrip.inputs import InputSpec, SampleShape, outputs_of, spec_of

BATCH = 2


@dataclass(frozen=True)
class Outputs:
    """What a task wants of a model."""

    count: int
    """numbers for each sample, or for each place of a sequence"""
    shape: tuple[int, ...] | None
    """the shape of one sample's outputs; None if any will do"""
    may_be_flat: bool = False
    """whether a single output may also come as shape (n,)"""

    @classmethod
    def of_classes(cls, classes: int) -> Self:
        """One number for each class."""
        return cls(classes, (classes,))


def check_model(module: nn.Module, inputs: SampleShape, outputs: Outputs | int, name: str | None = None) -> None:
    """Refuse a module without trainable float32 parameters, or that does not map such inputs to such outputs.

    Outputs that are a number alone stand for so many classes.

    The module is asked once, in evaluation mode; its modes, its buffers and torch's generator are as before.
    """
    inputs = spec_of(inputs)
    outputs = outputs if isinstance(outputs, Outputs) else Outputs.of_classes(outputs)
    called = f"model '{name or type(module).__name__}'"
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise UserError(f"{called} has lazy layers, whose sizes are not known; accepted: layers with all sizes given")
    trainable = {key: parameter for key, parameter in module.named_parameters() if parameter.requires_grad}
    if not trainable:
        raise UserError(f"{called} has no trainable parameters; accepted: a module with at least one")
    for key, parameter in trainable.items():
        if parameter.dtype != torch.float32:
            raise UserError(f"{called} has the parameter '{key}' of type {parameter.dtype}; accepted: torch.float32")
        if _has_gradient_hook(parameter):
            raise UserError(
                f"{called} has the parameter '{key}' with a gradient hook, which the copies that are trained do not "
                "have; accepted: parameters without hooks"
            )

    if not inputs.has_integers and any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in module.modules()):
        raise UserError(
            f"{called} looks up token ids (it has an embedding), but the data hold {inputs}: normalised numbers; "
            "accepted: token ids as integers, such as int64 (uint8 are pixels)"
        )
    batch = inputs.batch(BATCH)
    with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        module.eval()
        try:
            output = outputs_of(module, inputs.zeros(BATCH))
        except UserError as problem:
            raise UserError(f"{called} cannot take a batch of {batch}: {problem}") from None
        except Exception as error:
            told = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise UserError(f"{called} fails on a batch of {batch}: {told}") from error
    if outputs.shape is None:
        return
    either = [(BATCH, *outputs.shape), *([(BATCH,)] if outputs.may_be_flat and outputs.shape == (1,) else [])]
    if tuple(output.shape) not in either:
        raise UserError(
            f"{called} returns shape {tuple(output.shape)} for a batch of {batch}; accepted: a tensor of shape "
            f"{' or '.join(map(str, either))}"
        )


def _has_gradient_hook(parameter: Tensor) -> bool:
    """Whether something is called with its gradient; `copy.deepcopy` leaves such hooks out."""
    hooks = (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))
    return any(hooks)


def trains_on_one_sample(module: nn.Module, inputs: InputSpec) -> bool:
    """Whether a batch of one passes in training mode; BatchNorm over a single value refuses it."""
    with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            outputs_of(module.train(), inputs.zeros(1))
        except ValueError:
            return False
    return True


@contextmanager
def left_as_it_is(module: nn.Module) -> Iterator[None]:
    """Put back every submodule's mode and every buffer, also one that a forward pass replaces."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [
        (part, key, buffer, buffer.clone())
        for part in module.modules()
        for key, buffer in part._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
        with torch.no_grad():
            for part, key, buffer, before in buffers:
                part._buffers[key] = buffer.copy_(before)


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens to this very module, forward or backward."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )
