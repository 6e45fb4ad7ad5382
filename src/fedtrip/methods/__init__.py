"""The methods, by name; a user's own is `package.module:Class`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedtrip.errors import UserError, shortened, unknown_name
from fedtrip.imports import import_object
from fedtrip.method_names import check_method_name
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.feddane import FedDane
from fedtrip.methods.feddyn import FedDyn
from fedtrip.methods.fedgkd import FedGkd
from fedtrip.methods.fedprox import FedProx
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.methods.interface import (
    Affine,
    Attaching,
    Batch,
    Correction,
    CostSymbols,
    Local,
    Memory,
    Method,
    Reply,
    Server,
    Upload,
    Vectors,
    mean,
    total,
)
from fedtrip.methods.mimelite import MimeLite
from fedtrip.methods.moon import Moon
from fedtrip.methods.scaffold import Scaffold
from fedtrip.methods.slowmo import SlowMo

METHODS: dict[str, type[Method]] = {
    "fedtrip": FedTrip,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "slowmo": SlowMo,
    "moon": Moon,
    "feddyn": FedDyn,
    "scaffold": Scaffold,
    "mimelite": MimeLite,
    "feddane": FedDane,
    "fedgkd": FedGkd,
}
IN_TABLES = ("fedtrip", "fedavg", "fedprox", "slowmo", "moon", "feddyn")
"""The methods that the paper measures; the others it analyses or discusses."""


def method_class(name: str) -> type[Method]:
    """The class behind a method's name or `package.module:Class`."""
    if name in METHODS:
        return METHODS[name]
    check_method_name(name)
    found = import_object(name, "method")
    if not (isinstance(found, type) and issubclass(found, Method) and dataclasses.is_dataclass(found)):
        raise UserError(
            f"method '{name}' is not usable; accepted: a subclass of fedtrip.Method decorated with "
            "@dataclass(frozen=True)"
        )
    return found


def name_of(method: Method) -> str:
    """The name that `method_class` finds this method's class by."""
    for name, known in METHODS.items():
        if type(method) is known:
            return name
    return f"{type(method).__module__}:{type(method).__qualname__}"


def make_method(name: str, options: Mapping[str, Any], *, model: str, dataset: str) -> Method:
    """The method with these options; others take their defaults for the model and the data set."""
    cls = method_class(name)
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if "name" in fields:
        raise UserError(
            f"method '{name}' has an option called 'name', which an experiment file needs for the method's own"
        )
    for option in options:
        if option not in fields:
            if not fields:
                raise UserError(f"option '{option}' is unknown: method '{name}' has no options")
            raise unknown_name(f"method '{name}': option", option, fields)
    values = {**cls.defaults_for(model, dataset, options), **options}
    adapter = _adapter(cls)  # type: ignore[arg-type]  # mypy takes the hash of its instances for the class's own
    try:
        # As what an experiment file can hold, without conversions: `true` is no number, and "0.4" neither.
        adapter.validate_json(json.dumps(values), strict=True)
        return adapter.validate_python(values)
    except TypeError as problem:
        raise UserError(f"method '{name}': an option cannot be stored: {problem}; accepted: what TOML has") from None
    except ValidationError as problem:
        raise _explained(name, problem) from None


@cache
def _adapter(cls: type[Method]) -> TypeAdapter[Method]:
    """What checks a method's options; making it takes a millisecond, using it some microseconds."""
    return TypeAdapter(cls)


def _explained(name: str, problem: ValidationError) -> UserError:
    """What is wrong with an option, or, as the method itself says it, with some of them together."""
    errors = problem.errors()
    where, value = errors[0]["loc"], errors[0]["input"]
    if not where:
        own = errors[0].get("ctx", {}).get("error")
        return own if isinstance(own, UserError) else UserError(f"method '{name}': {errors[0]['msg']}")
    accepted = " or ".join(
        error["msg"].removeprefix("Input should be ") for error in errors if error["loc"][0] == where[0]
    )
    return UserError(f"method '{name}': option '{where[0]}' is {shortened(repr(value))}; accepted: {accepted}")


def options_of(method: Method) -> dict[str, Any]:
    """All hyper-parameters of a method, by name."""
    return {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}  # type: ignore[arg-type]


__all__ = [
    "IN_TABLES",
    "METHODS",
    "Affine",
    "Attaching",
    "Batch",
    "Correction",
    "CostSymbols",
    "FedAvg",
    "FedDane",
    "FedDyn",
    "FedGkd",
    "FedProx",
    "FedTrip",
    "Local",
    "Memory",
    "Method",
    "MimeLite",
    "Moon",
    "Reply",
    "Scaffold",
    "Server",
    "SlowMo",
    "Upload",
    "Vectors",
    "make_method",
    "mean",
    "method_class",
    "name_of",
    "options_of",
    "total",
]
