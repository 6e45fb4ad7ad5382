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
from fedtrip.models.check import check_model
from fedtrip.models.initial import draw_initial_weights
from fedtrip.randomness import torch_seed
from fedtrip.registry.imports import import_object

__all__ = ["MODELS", "build_model", "check_model", "check_model_spec", "model_class"]

CUSTOM = "package.module:factory"
MODELS = model_names()
"""The names of the built-in models."""


def model_class(name: str) -> type[nn.Module]:
    """The class of a built-in model: called with `sample_shape` and `classes`; its `title` is one line about it."""
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    own = (one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__)
    (found,) = (one for one in own if hasattr(one, "title"))
    assert isinstance(found, type)
    assert issubclass(found, nn.Module)
    return found


def check_model_spec(spec: str) -> None:
    """Refuse a model that is neither a known name nor written as `package.module:factory`; imports nothing."""
    module_name, colon, attribute = spec.partition(":")
    if not colon and spec not in MODELS:
        raise unknown_name("model", spec, MODELS, CUSTOM)
    if colon and not (attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise UserError(f"model '{spec}' is not accepted; accepted: {', '.join(sorted(MODELS))}, or {CUSTOM}")


def build_model(spec: str, sample_shape: tuple[int, ...], classes: int, seed: int, *, flat: bool = False) -> nn.Module:
    """A new model for such samples, its initial weights a function of the seed; torch's own generator is untouched.

    `spec` is a name of `MODELS`, or `package.module:factory`, imported with the working directory on the path; the
    factory is a function or an `nn.Module` subclass, called with `sample_shape` and `classes` as far as it takes them.
    `classes` is the number of outputs, 1 for a task without classes; with `flat` an own model may return shape (n,).
    A built-in model has the same initial weights on every CPU; one's own has those that torch draws on this one.
    """
    check_model_spec(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "model"))
        if spec in MODELS:
            model = model_class(spec)(sample_shape=sample_shape, classes=classes)
            draw_initial_weights(model, seed)
            return model
        model = _call(spec, _imported(spec), {"sample_shape": sample_shape, "classes": classes})
        check_model(model, sample_shape, classes, name=spec, flat=flat)
        return model


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
