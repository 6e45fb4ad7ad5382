"""The representation of a sample inside a model: what MOON compares between models. And its last hidden layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from fedtrip.errors import UserError, unknown_name
from fedtrip.inputs import InputSpec, outputs_of
from fedtrip.models.check import left_as_it_is

INPUT_OF = "input of "
"""What a name begins with that means what goes into a layer, not what comes out of it."""


@dataclass(frozen=True)
class RepresentationLayer:
    """Where the representation passes: what goes into a layer, or what comes out of it."""

    name: str
    layer: nn.Module
    side: Literal["input", "output"]


def representation_layer(module: nn.Module, name: str | None = None) -> RepresentationLayer:
    """The output of the submodule `name`, or with "input of name" its input; by default the input of the last
    `nn.Linear`, the classifier.

    Last is meant in the order of `named_modules`, which is the order of definition. Where dropout comes directly
    before that layer in an `nn.Sequential`, the representation is what goes into the dropout: a comparison of two
    models should not see two random masks.
    """
    layers = {key: layer for key, layer in module.named_modules() if key}
    if name is not None:
        key = name.removeprefix(INPUT_OF)
        if key not in layers:
            raise unknown_name("representation", key, layers)
        return RepresentationLayer(key, layers[key], "output" if key == name else "input")
    linear = [(key, layer) for key, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise UserError(
            "the model has no torch.nn.Linear whose input would be its representation; "
            f"name the layer with representation=...; layers: {', '.join(layers)}"
        )
    key, last = linear[-1]
    before = _dropout_before(module, last)
    return RepresentationLayer(*before, "input") if before else RepresentationLayer(key, last, "input")


def hidden_layer(module: nn.Module) -> tuple[str, nn.Linear] | None:
    """The last hidden fully connected layer, with its name: the `nn.Linear` before the classifier; None without one."""
    linear = [(key, layer) for key, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    return linear[-2] if len(linear) > 1 else None


def known_hidden_layer(module: nn.Module) -> tuple[str, nn.Linear]:
    """The same, where there must be one."""
    found = hidden_layer(module)
    if found is None:
        raise UserError(
            "the model has no hidden fully connected layer, a torch.nn.Linear before its last one; accepted: a model "
            "that has one, such as mlp or cnn"
        )
    return found


class Tap:
    """Catches the representation whenever the model runs, as (batch, features), with its gradient.

    tap = Tap(model); logits = model(x); z = tap.take(); …; tap.remove(). Also a context manager. Of a layer that runs
    several times in a forward pass, the last run counts.
    """

    def __init__(self, module: nn.Module, name: str | None = None) -> None:
        self.site = representation_layer(module, name)
        self._value: object = None
        layer = self.site.layer
        if self.site.side == "input":
            self._hook = layer.register_forward_pre_hook(self._catch_input, with_kwargs=True)
        else:
            self._hook = layer.register_forward_hook(self._catch_output)

    def take(self) -> Tensor:
        """The representation of the last forward pass; it can be taken once."""
        value, self._value = self._value, None
        if isinstance(value, Tensor) and value.dim() >= 2:
            return value.flatten(1)
        if value is None:
            got = "the layer did not run"
        else:
            got = f"its {self.site.side} is " + (
                f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            )
        raise UserError(
            f"representation '{self.site.name}' is not there: {got}; accepted: a layer that runs in the forward pass "
            "and has a tensor (batch, …) there"
        )

    def remove(self) -> None:
        """Leave the model as it was before."""
        self._hook.remove()
        self._value = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _catch_input(self, _layer: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self._keep(next(iter((*args, *kwargs.values())), None))

    def _catch_output(self, _layer: nn.Module, _args: object, output: object) -> None:
        self._keep(output)

    def _keep(self, value: object) -> None:
        self._value = value.clone() if isinstance(value, Tensor) else value  # the next layer may work in place


def check_representation(module: nn.Module, inputs: InputSpec, name: str | None = None) -> None:
    """Refuse a representation that no training changes, as the input itself is: two models' would be the same."""
    with Tap(module, name) as tap, left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.enable_grad():
        outputs_of(module.eval(), inputs.zeros(2))
        if not tap.take().requires_grad:
            raise UserError(
                f"the representation, the {tap.site.side} of '{tap.site.name}', depends on no trained parameter, so "
                "that it is the same in every model; accepted: a model with trained layers before it, or another "
                "layer with representation=..."
            )


def check_hidden(module: nn.Module, inputs: InputSpec) -> None:
    """Refuse a module without a last hidden fully connected layer that gets one row of features for each sample."""
    key, layer = known_hidden_layer(module)
    with Tap(module, INPUT_OF + key) as tap, left_as_it_is(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        outputs_of(module.eval(), inputs.zeros(2))
        if tap.take().shape[1] != layer.in_features:
            raise UserError(
                f"its last hidden fully connected layer, '{key}', gets more than one row of {layer.in_features} "
                "features for each sample; accepted: a model where it gets one"
            )


def _dropout_before(module: nn.Module, last: nn.Module) -> tuple[str, nn.Module] | None:
    """The first of the dropouts directly before `last` in a Sequential, with its name; None if there are none."""
    for path, parent in module.named_modules():
        if not isinstance(parent, nn.Sequential):
            continue
        children = list(parent._modules.items())
        position = max((i for i, (_, child) in enumerate(children) if child is last), default=0)
        first = position
        while first > 0 and isinstance(children[first - 1][1], _DropoutNd):
            first -= 1
        if first < position:
            key, dropout = children[first]
            assert dropout is not None
            return f"{path}.{key}".lstrip("."), dropout
    return None
