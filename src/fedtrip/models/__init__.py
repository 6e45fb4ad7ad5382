"""Models by name, and a user's own by `package.module:factory`.

A built-in model is a module of this folder, called as the model is: its class is the one that has a `title`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import torch
from torch import nn

from fedtrip.errors import UserError, unknown_name
from fedtrip.families import model_names
from fedtrip.inputs import InputSpec, SampleShape, spec_of
from fedtrip.models.check import Outputs, check_model
from fedtrip.models.initial import draw_initial_weights
from fedtrip.randomness import torch_seed
from fedtrip.registry.imports import import_object

__all__ = [
    "MODELS", "Outputs", "build_model", "check_model", "check_model_spec", "model_class", "takes_tokens",
    "usual_samples",
]  # fmt: skip

CUSTOM = "package.module:factory"
MODELS = model_names()
"""The names of the built-in models."""
GREY = InputSpec.numbers(1, 28, 28)


def model_class(name: str) -> type[nn.Module]:
    """The class of a built-in model: called with `sample_shape` and `classes`, or, if it takes tokens, `vocabulary` and
    `outputs`; its `title` is one line about it, its `usual_inputs` are what it is mostly given."""
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    own = (one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__)
    (found,) = (one for one in own if hasattr(one, "title"))
    assert isinstance(found, type)
    assert issubclass(found, nn.Module)
    return found


def usual_samples(name: str) -> tuple[InputSpec, int]:
    """What costs of a model are told for where no data are: its usual inputs (grey images of 28×28 if it does not say
    it), and 10 classes, or as many as there are tokens."""
    inputs: InputSpec = getattr(model_class(name), "usual_inputs", GREY) if name in MODELS else GREY
    return inputs, inputs.vocabulary or 10


def takes_tokens(name: str) -> bool:
    """Whether a built-in model takes token ids, and no numbers."""
    return name in MODELS and "vocabulary" in inspect.signature(model_class(name)).parameters


def check_model_spec(spec: str) -> None:
    """Refuse a model that is neither a known name nor written as `package.module:factory`; imports nothing."""
    module_name, colon, attribute = spec.partition(":")
    if not colon and spec not in MODELS:
        raise unknown_name("model", spec, MODELS, CUSTOM)
    if colon and not (attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise UserError(f"model '{spec}' is not accepted; accepted: {', '.join(sorted(MODELS))}, or {CUSTOM}")


def build_model(spec: str, inputs: SampleShape, outputs: Outputs | int, seed: int) -> nn.Module:
    """A new model for such samples, its initial weights a function of the seed; torch's own generator is untouched.

    `spec` is a name of `MODELS`, or `package.module:factory`, imported with the working directory on the path; the
    factory is a function or an `nn.Module` subclass, called with `sample_shape`, `classes` (the outputs that the task
    wants of it, 1 for a task without classes), `vocabulary` (how many token ids there are), `inputs` (an `InputSpec`)
    and `outputs` (an `Outputs`: also their shape) as far as it takes them.
    A built-in model has the same initial weights on every CPU; one's own has those that torch draws on this one.
    """
    check_model_spec(spec)
    inputs = spec_of(inputs)
    outputs = outputs if isinstance(outputs, Outputs) else Outputs.of_classes(outputs)
    offered: dict[str, object] = {
        "classes": outputs.count, "inputs": inputs, "vocabulary": inputs.vocabulary, "outputs": outputs,
    }  # fmt: skip
    if inputs.kind == "one":
        offered["sample_shape"] = inputs.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "model"))
        if spec not in MODELS:
            model = _call(spec, _imported(spec), offered)
            check_model(model, inputs, outputs, name=spec)
            return model
        _check_it_fits(spec, inputs, outputs)
        built_in = model_class(spec)
        model = built_in(**_keywords_taken(built_in, offered))
        draw_initial_weights(model, seed)
        return model


def _check_it_fits(name: str, inputs: InputSpec, outputs: Outputs) -> None:
    """Refuse a built-in model for inputs that it does not take, or outputs that it does not have."""
    if inputs.kind != "one" or inputs.has_integers != takes_tokens(name):
        wanted = "one array of token ids (integers)" if takes_tokens(name) else "one array of numbers or pixels"
        raise UserError(
            f"model '{name}' takes {wanted}, but the samples are of {inputs}; accepted: such data, or another model"
        )
    if not takes_tokens(name) and outputs.shape not in (None, (outputs.count,)):
        raise UserError(
            f"model '{name}' has {outputs.count} outputs for a sample, but the task wants shape {outputs.shape}; "
            "accepted: another task, or another model"
        )


def _imported(spec: str) -> Callable[..., object]:
    factory: Callable[..., object] = import_object(spec, "model")
    if isinstance(factory, nn.Module) or not callable(factory):
        raise UserError(
            f"model '{spec}' is a {type(factory).__name__} object; accepted: a function that returns a new "
            "torch.nn.Module, or a subclass of it"
        )
    return factory


def _call(spec: str, factory: Callable[..., object], offered: dict[str, object]) -> nn.Module:
    taken = _keywords_taken(factory, offered)
    try:
        model = factory(**taken)
    except Exception as error:
        arguments = ", ".join(f"{name}={value}" for name, value in taken.items())
        raise UserError(f"model '{spec}' failed when called with ({arguments}): {_told(error)}") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"model '{spec}' returned a {type(model).__name__}; accepted: a torch.nn.Module")
    return model


def _keywords_taken(factory: Callable[..., object], offered: dict[str, object]) -> dict[str, object]:
    """The offered keyword arguments that the factory's signature has room for."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # no signature to read, as of some built-in callables
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return offered
    by_keyword = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return {name: value for name, value in offered.items() if name in by_keyword}


def _told(error: Exception) -> str:
    """The error's kind and text, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
