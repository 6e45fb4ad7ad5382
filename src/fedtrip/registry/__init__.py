"""One registry for every family of rules: how a rule is written, found, checked, explained and made.

A rule is written

    name                              the built-in rule of that name
    name:parameter                    the same, with a value for the option that its class calls `parameter`
    name:parameter:second             the same, with one for its `second_parameter` too, where a class has one
    {name = "...", option = ...}      the same, with options
    name+name:parameter               several built-in rules one after the other, in a family that says so
    package.module:Class              a class of the user's own, with `:parameter` and in a table like any other

and, from Python, as an object. The built-in rules of a family are the modules of its folder: `codecs/topk.py` is the
rule `topk`, and its class the one subclass of the family's base that it defines. So a new rule is one new file. The
names are known without importing any of them: PyTorch is imported when a rule is made or explained
(`fedtrip.registry.explanation`).
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from fedtrip.errors import UserError, shortened, unknown_name
from fedtrip.registry.imports import import_object
from fedtrip.registry.rule_files import Colon, colon_of, module_names, option_names


class Rule:
    """Base of the rules of all families: a frozen dataclass, whose fields are its options.

    Options are checked by their annotations; pydantic's `Annotated[float, Field(gt=0)]` gives a range.
    """

    title: ClassVar[str] = ""
    """What it is, in one line."""
    parameter: ClassVar[str | None] = None
    """The option that `name:parameter` gives a value, if there is one."""
    second_parameter: ClassVar[str | None] = None
    """The option that `name:parameter:second` gives a value beside it, if there is one; it has a default."""


@dataclass(frozen=True)
class Choice:
    """A rule as an experiment names it, with the options that were given for it; nothing is imported."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    parameter: str | None = None
    """the text behind the colon of `name:parameter`, not read yet"""

    @property
    def text(self) -> str:
        """The name with its parameter."""
        return self.name if self.parameter is None else f"{self.name}:{self.parameter}"

    def __str__(self) -> str:
        return " ".join([self.text, *(f"{name}={value}" for name, value in self.options.items())])

    def __hash__(self) -> int:
        return hash((self.name, self.parameter))  # options may hold lists

    def as_toml(self) -> str | dict[str, Any]:
        """The choice as an experiment file holds it."""
        return {"name": self.text, **self.options} if self.options else self.text


@dataclass(frozen=True)
class Family:
    """Interchangeable rules: one field of an experiment, one folder, one base class."""

    field: str
    """the experiment's field that names one of them"""
    package: str
    base: str
    """the base class, in the package's module `interface`"""
    default: str
    says: str
    """what a rule of this family says, in one line"""
    joined: str | None = None
    """the rule that `one+another` stands for, its parameter being that text, if rules may be joined so"""

    @property
    def folder(self) -> str:
        """The word for its rules: the folder they lie in."""
        return self.package.rpartition(".")[2]

    def names(self) -> list[str]:
        """The built-in rules, the default first."""
        return sorted(module_names(self.package), key=lambda name: (name != self.default, name))

    def forms(self) -> list[str]:
        """How one writes each of them: `mean`, `topk:SHARE`; read off the source, nothing is imported."""
        shown = {name: self.colon_of(name) for name in self.names()}
        return [name if colon is None else f"{name}:{colon.option.upper()}" for name, colon in shown.items()]

    def colon_of(self, name: str) -> Colon | None:
        """What stands behind the colon of a built-in rule's name; None if nothing may, and for one of the user's."""
        return colon_of(self.package, name) if name in self.names() else None

    def options(self, name: str) -> tuple[str, ...]:
        """The options of a built-in rule, read off the sources; none of one of the user's, which is not imported."""
        return option_names(self.package, name, self.base) if name in self.names() else ()

    def read(self, value: object) -> Choice:
        """The rule that a text, a table or an object names; raises `UserError` for a name that nobody has."""
        if isinstance(value, Choice):
            choice = value
        elif isinstance(value, str):
            choice = self._read_text(value)
        elif isinstance(value, Mapping):
            given = dict(value)
            name = given.pop("name", self.default)
            if not isinstance(name, str):
                raise self._unreadable(name)
            named = self._read_text(name)
            choice = Choice(named.name, given, named.parameter)
        elif isinstance(value, Rule):
            choice = Choice(self.name_of(type(value)), options_of(value))
        else:
            raise self._unreadable(value)
        module, colon, _ = choice.name.partition(":")
        if choice.name not in self.names() and (not colon or self._is_misspelt(module)):
            raise self._unknown(module)
        return choice

    def with_option(self, choice: Choice, option: str, value: Any) -> Choice:
        """The same rule with one option changed, wherever it was written before; not checked yet."""
        if choice.parameter is not None:
            behind_colon = _behind_colon(self.find(choice.name), choice.parameter)
            if option in behind_colon:
                return Choice(choice.name, {**choice.options, **behind_colon, option: value})
        return Choice(choice.name, {**choice.options, option: value}, choice.parameter)

    def find(self, name: str) -> type[Rule]:
        """The class behind a name; imports it."""
        base = getattr(importlib.import_module(f"{self.package}.interface"), self.base)
        if name in self.names():
            module = importlib.import_module(f"{self.package}.{name.replace('-', '_')}")
            own = [
                value
                for value in vars(module).values()
                if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
            ]
            assert len(own) == 1, f"{module.__name__} defines {len(own)} rules"
            return own[0]
        if ":" not in name:
            raise self._unknown(name)
        found = import_object(name, self.field)
        if not (isinstance(found, type) and issubclass(found, base) and dataclasses.is_dataclass(found)):
            raise UserError(
                f"{self.field} '{name}' is not usable; accepted: a subclass of {base.__module__}.{base.__name__} "
                "decorated with @dataclass(frozen=True)"
            )
        return found  # type: ignore[return-value]  # a Rule: the bases of all families are

    def name_of(self, cls: type[Rule]) -> str:
        """The name that `find` finds this class by."""
        package, _, module = cls.__module__.rpartition(".")
        name = module.replace("_", "-")
        if package == self.package and name in self.names():
            return name
        return f"{cls.__module__}:{cls.__qualname__}"

    def make(self, value: object, **defaults: Any) -> Any:
        """The rule itself, its options checked; `defaults` stand in for options that were not given."""
        choice = self.read(value)
        cls = self.find(choice.name)
        options = {**defaults, **self._with_parameter(cls, choice)}
        known = [one.name for one in option_fields(cls)]
        called = f"{self.field} '{choice.text}'"
        if "name" in known:
            raise UserError(f"{called} has an option called 'name', which an experiment file needs for the rule's own")
        for option in options:
            if option not in known:
                if not known:
                    raise UserError(f"option '{option}' is unknown: {called} has no options")
                raise unknown_name(f"{called}: option", option, known)
        return _checked(cls, options, called, choice.name)

    def complete(self, rule: Rule) -> Choice:
        """How a complete experiment names a rule: with every option, the parameter behind the colon.

        A parameter that would be read as something else there, such as the text "3", stays among the options.
        """
        # a list, as it is when it is read again from an experiment file
        options = {name: list(v) if isinstance(v, tuple) else v for name, v in options_of(rule).items()}
        texts = list[str]()
        for option in filter(None, (rule.parameter, rule.second_parameter)):
            text = str(options[option])
            if text != text.strip() or repr(_read_number(text)) != repr(options[option]):
                break
            texts.append(text)
            del options[option]
        if rule.second_parameter is not None and options.get(rule.second_parameter, "") is None:
            del options[rule.second_parameter]  # nothing was said: None is no text
        return Choice(self.name_of(type(rule)), options, ":".join(texts) if texts else None)

    def _read_text(self, text: str) -> Choice:
        """`name`, `name:parameter`, `package.module:Class` or `package.module:Class:parameter`."""
        if self.joined is not None and "+" in text and not text.startswith(f"{self.joined}:"):
            return Choice(self.joined, {}, text)
        parts = [part.strip() for part in text.split(":", 2)]
        if parts[0] in self.names():
            name, *parameter = (part.strip() for part in text.split(":", 1))
        else:
            name, parameter = ":".join(parts[:2]), parts[2:]
        return Choice(name, {}, parameter[0] if parameter else None)

    def _unknown(self, name: str) -> UserError:
        forms = dict(zip(self.names(), self.forms(), strict=True))
        return unknown_name(self.field, name, forms, also="your own as package.module:Class", forms=forms)

    def _is_misspelt(self, module: str) -> bool:
        """Whether what stands before a colon is rather a rule's name with a slip than somebody's module.

        No rule's name has a dot; to find a module behind one, Python would import what stands before it.
        """
        if "." in module or not difflib.get_close_matches(module, self.names(), n=1, cutoff=0.75):
            return False
        is_here = Path(f"{module}.py").exists() or Path(module).is_dir()
        return not is_here and importlib.util.find_spec(module) is None

    def _with_parameter(self, cls: type[Rule], choice: Choice) -> dict[str, Any]:
        """The options with the one behind the colon among them."""
        options = dict(choice.options)
        if choice.parameter is None:
            return options
        if cls.parameter is None:
            raise UserError(
                f"{self.field} '{choice}' is not accepted: '{choice.name}' has no parameter; accepted: {choice.name}"
            )
        behind_colon = _behind_colon(cls, choice.parameter)
        for option in behind_colon:
            if option in options:
                raise UserError(f"{self.field} '{choice}' gives '{option}' twice; accepted: once")
        return {**options, **behind_colon}

    def _unreadable(self, value: object) -> UserError:
        if isinstance(value, type) and issubclass(value, Rule):
            name = value.__name__
            return UserError(f"{self.field} is the class {name}; accepted: an object of it, {name}(...)")
        accepted = f"{', '.join(self.forms())}, a table with a name and options, or your own as package.module:Class"
        return UserError(f"{self.field} is {shortened(repr(value))}; accepted: {accepted}")


def options_of(rule: Rule) -> dict[str, Any]:
    """All options of a rule, by name."""
    return {one.name: getattr(rule, one.name) for one in option_fields(type(rule))}


def option_fields(cls: type[Rule]) -> list[dataclasses.Field[Any]]:
    """The fields of a rule that are its options."""
    return [one for one in dataclasses.fields(cls) if one.init]  # type: ignore[arg-type]


def _behind_colon(cls: type[Rule], parameter: str) -> dict[str, Any]:
    """The options that stand behind the colon of a rule that has a parameter."""
    assert cls.parameter is not None
    if cls.second_parameter is None or ":" not in parameter:
        return {cls.parameter: _read_number(parameter)}
    first, second = (part.strip() for part in parameter.split(":", 1))
    return {cls.parameter: _read_number(first), cls.second_parameter: _read_number(second)}


def _read_number(text: str) -> Any:
    """A parameter as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _checked(cls: type[Rule], options: Mapping[str, Any], called: str, name: str) -> Rule:
    adapter = _adapter(cls)  # type: ignore[arg-type]  # mypy takes the hash of its instances for the class's own
    try:
        # As what an experiment file can hold, without conversions: `true` is no number, and "0.4" neither.
        adapter.validate_json(json.dumps(options), strict=True)
        return adapter.validate_python(options)
    except TypeError as problem:
        raise UserError(f"{called}: an option cannot be stored: {problem}; accepted: what TOML has") from None
    except ValidationError as problem:
        forms = {} if cls.parameter is None else {cls.parameter: f"{name}:{cls.parameter.upper()}"}
        raise _explained(called, problem, forms) from None


@cache
def _adapter(cls: type[Rule]) -> TypeAdapter[Rule]:
    """What checks a rule's options; making it takes a millisecond, using it some microseconds."""
    return TypeAdapter(cls)


def _explained(called: str, problem: ValidationError, forms: Mapping[str, str]) -> UserError:
    """What is wrong with an option, or, as the rule itself says it, with some of them together.

    `forms` says how an option that lacks a value can be written in short.
    """
    errors = problem.errors()
    where, value = errors[0]["loc"], errors[0]["input"]
    if not where:
        own = errors[0].get("ctx", {}).get("error")
        return own if isinstance(own, UserError) else UserError(f"{called}: {errors[0]['msg']}")
    if errors[0]["type"] == "missing":
        accepted = forms.get(str(where[0]), f"{{name = …, {where[0]} = …}}")
        return UserError(f"{called} needs the option '{where[0]}'; accepted: {accepted}")
    accepted = " or ".join(
        error["msg"].removeprefix("Input should be ") for error in errors if error["loc"][0] == where[0]
    )
    return UserError(f"{called}: option '{where[0]}' is {shortened(repr(value))}; accepted: {accepted}")
