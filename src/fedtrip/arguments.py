"""The arguments of the public functions: a wrong one is the user's to mend, like any other bad input.

Python itself would raise a `TypeError` for a name that a function does not have, and for a value of another type
whatever happens to come of it, often much later.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from fedtrip.errors import UserError, shortened, unknown_name

P = ParamSpec("P")
R = TypeVar("R")
NUMBERS: dict[Any, type] = {int: Integral, float: Real}
"""What a number may be: NumPy's are numbers too, `True` is none."""
IN_WORDS: dict[Any, str] = {
    int: "an integer", float: "a number", str: "a text", bool: "True or False", Path: "a path", type(None): "None",
    Callable: "a function", Sequence: "a list", Mapping: "a dict",
}  # fmt: skip
VOWELS = "AEIOU"


def checked_arguments(
    *, fields: Callable[[], Iterable[str]] = tuple, leave: Collection[str] = (), **accepted: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function refuse arguments that it does not have, and values of other types, by a `UserError`.

    `accepted` says for some arguments what they take, where the types do not say it well; `leave` are those whose
    values the function itself looks at. `fields` are names that belong to an `Experiment`, for who gives them to the
    function.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*arguments: P.args, **named: P.kwargs) -> R:
            given = _bound(function.__name__, signature, fields, arguments, named)
            types_of = _types_of(function)
            for name, value in given.items():
                if name in types_of and name not in leave and not fits(value, types_of[name]):
                    told = accepted.get(name) or in_words(types_of[name])
                    raise UserError(f"{name} is {_shown(value)}; accepted: {told}")
            return function(*arguments, **named)

        return wrapper

    return decorate


@functools.cache
def _types_of(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function)


def _bound(
    name: str,
    signature: inspect.Signature,
    fields: Callable[[], Iterable[str]],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
) -> dict[str, Any]:
    """The arguments by name."""
    known = [parameter for parameter in signature.parameters if parameter not in ("self", "cls")]
    for given in named:
        if given not in known:
            for field in difflib.get_close_matches(given, fields(), n=1, cutoff=0.8):
                told = "it is" if field == given else f"'{field}' is"
                accepted = f"{told} a field of the experiment; accepted: {name}(Experiment({field}=...))"
                raise UserError(f"{name} has no argument '{given}': {accepted}")
            raise unknown_name(f"{name}: argument", given, known)
    try:
        return signature.bind(*arguments, **named).arguments
    except TypeError as problem:
        by_place = [p.name for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY and p.name in known]
        told = f"accepted: {', '.join(by_place) or 'nothing'} by position, all else by name"
        raise UserError(f"{name}: {problem}; {told}") from None


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type; of a type that is too involved to tell, any is, and the function sees to it."""
    origin = get_origin(kind)
    if origin is Annotated:
        return fits(value, get_args(kind)[0])
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in get_args(kind))
    if origin is Literal:
        return any(value is one or (type(value) is type(one) and value == one) for one in get_args(kind))
    plain = origin or kind
    if kind is None or plain is type(None):
        return value is None
    if plain in NUMBERS:
        return isinstance(value, NUMBERS[plain]) and not isinstance(value, bool)
    if plain is Callable:
        return callable(value)
    if plain is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    if isinstance(plain, type) and not getattr(plain, "_is_protocol", False):
        return isinstance(value, plain)
    return True


def in_words(kind: Any) -> str:
    """What a type takes, for a message."""
    origin = get_origin(kind)
    if origin is Annotated:
        return in_words(get_args(kind)[0])
    if origin in (Union, types.UnionType):
        words = list(dict.fromkeys(in_words(one) for one in get_args(kind)))
        return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
    if origin is Literal:
        return ", ".join(map(str, get_args(kind)))
    plain = type(None) if kind is None else origin or kind
    name = getattr(plain, "__name__", str(plain))
    return IN_WORDS.get(plain, f"{'an' if name[:1] in VOWELS else 'a'} {name}")


def _shown(value: object) -> str:
    """A value in a message: an object whose text is long or spans lines by its type."""
    text = repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}" if "\n" in text or len(text) > 80 else shortened(text)
