"""A rule for people: its title, its formula, its options with defaults and accepted values, from its class alone."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from fedtrip.registry import Family, option_fields

SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
"""The bounds of pydantic's `Field` by their names."""


@dataclass(frozen=True)
class Option:
    """One option of a rule, as it is explained."""

    name: str
    default: Any
    """None if it has none, so that a value must be given"""
    accepted: str
    help: str


@dataclass(frozen=True)
class Explanation:
    """A rule for people: what it is, its formula, its options."""

    name: str
    title: str
    formula: str
    options: tuple[Option, ...]


def explain_rule(family: Family, name: str) -> Explanation:
    """Everything that the help says about a rule, from its class alone."""
    cls = family.find(name)
    hints, texts = get_type_hints(cls, include_extras=True), _attribute_docstrings(cls)
    options = tuple(
        Option(
            name=one.name,
            default=None if one.default is dataclasses.MISSING else one.default,
            accepted=_accepted_values(hints[one.name]),
            help=texts.get(one.name, ""),
        )
        for one in option_fields(cls)
    )
    return Explanation(name, cls.title, (inspect.getdoc(cls) or "").splitlines()[0], options)


def _accepted_values(kind: Any) -> str:
    """A type as one reads it: `float ≥ 0`, or the values and types that one may choose from."""
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        limits = ", ".join(limit for mark in marks for limit in _limits(mark))
        return " ".join(filter(None, (_accepted_values(inner), limits)))
    if kind is type(None):
        return "nothing"
    if get_origin(kind) is None:
        return kind.__name__ if isinstance(kind, type) else str(kind)
    if get_origin(kind) is tuple:
        return f"list of {_accepted_values(get_args(kind)[0])}"
    return " | ".join(map(_accepted_values, get_args(kind)))


def _limits(mark: object) -> list[str]:
    """`> 0` and the like, of pydantic's `Field(gt=0)`."""
    bounds = mark.metadata if isinstance(mark, FieldInfo) else [mark]
    return [
        f"{sign} {getattr(bound, name):g}" for bound in bounds for name, sign in SIGNS.items() if hasattr(bound, name)
    ]


def _attribute_docstrings(cls: type[Any]) -> dict[str, str]:
    """The string that follows each annotated attribute in the source of the class and of its bases."""
    found: dict[str, str] = {}
    for owner in reversed([one for one in cls.__mro__ if dataclasses.is_dataclass(one)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0].body  # type: ignore[attr-defined]
        for attribute, text in itertools.pairwise(body):
            if (
                isinstance(attribute, ast.AnnAssign)
                and isinstance(attribute.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[attribute.target.id] = " ".join(str(text.value.value).split())
    return found
