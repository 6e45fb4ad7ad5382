"""Whether a module can be trained here: what it must have, and what it must answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedtrip.errors import UserError

BATCH = 2


def check_model(
    module: nn.Module, sample_shape: tuple[int, ...], outputs: int, name: str | None = None, *, flat: bool = False
) -> None:
    """Refuse a module without trainable float32 parameters, or that does not map (2, *sample_shape) to (2, outputs).

    With `flat`, a single output may also come as shape (2,).

    The module is asked once, in evaluation mode; its modes, its buffers and torch's generator are as before.
    """
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

    shape = (BATCH, *sample_shape)
    with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        module.eval()
        try:
            output = module(torch.zeros(shape))
        except Exception as error:
            told = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise UserError(f"{called} fails on a batch of shape {shape}: {told}") from error
    either = [(BATCH, outputs), *([(BATCH,)] if flat and outputs == 1 else [])]
    each = "one number for each sample" if flat else "one number for each class"
    wanted = f"accepted: a tensor of shape {' or '.join(map(str, either))}, {each}"
    if not isinstance(output, Tensor):
        raise UserError(f"{called} returns a {type(output).__name__} for a batch of shape {shape}; {wanted}")
    if tuple(output.shape) not in either:
        raise UserError(f"{called} returns shape {tuple(output.shape)} for a batch of shape {shape}; {wanted}")


def _has_gradient_hook(parameter: Tensor) -> bool:
    """Whether something is called with its gradient; `copy.deepcopy` leaves such hooks out."""
    hooks = (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))
    return any(hooks)


def trains_on_one_sample(module: nn.Module, sample_shape: tuple[int, ...]) -> bool:
    """Whether a batch of one passes in training mode; BatchNorm over a single value refuses it."""
    with left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            module.train()(torch.zeros(1, *sample_shape))
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
