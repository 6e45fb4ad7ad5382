"""What a folder of rules holds, from its files alone: nothing is imported, because a rule may bring PyTorch."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NOT_RULES = ("interface",)
"""Modules of a family's folder that hold no rule; so do those whose name begins with an underscore."""


@dataclass(frozen=True)
class Colon:
    """The option that `name:parameter` gives a value."""

    option: str
    is_needed: bool
    """whether it has no default"""


@cache
def module_names(package: str) -> tuple[str, ...]:
    """The names of the rules in a package's folder, which is not imported for it."""
    found = (module.name for module in pkgutil.iter_modules([str(_folder(package))]))
    return tuple(name.replace("_", "-") for name in found if name not in NOT_RULES and not name.startswith("_"))


@cache
def colon_of(package: str, name: str) -> Colon | None:
    """A rule's parameter as its module's source says it, because importing the module may bring PyTorch."""
    source = (_folder(package) / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    if "    parameter = " not in source:
        return None
    bodies = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    for body in bodies:
        for line in body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "parameter":
                option = str(ast.literal_eval(line.value))
                fields = [one for one in body if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == option]
                return Colon(option, is_needed=any(one.value is None for one in fields))
    return None


@cache
def option_names(package: str, name: str, base: str) -> tuple[str, ...]:
    """The options of a rule, those of its bases first, as the sources say: fields of dataclasses.

    `base` is the family's base class, by which the rule is told from other classes of its module.
    """
    module = f"{package}.{name.replace('-', '_')}"
    chains = (_chain(module, name) for name in _classes(module))
    rule = next(chain for chain in chains if base in [cls.name for cls in chain])
    fields = [line for cls in reversed(rule) for line in cls.body if isinstance(line, ast.AnnAssign)]
    is_option = {ast.unparse(line.target): _is_option(line) for line in fields}  # a class may take one of its base away
    return tuple(name for name, is_one in is_option.items() if is_one)


def _is_option(line: ast.AnnAssign) -> bool:
    made = "" if line.value is None else ast.unparse(line.value)
    return not ast.unparse(line.annotation).startswith("ClassVar") and "init=False" not in made


def _chain(module: str, name: str) -> list[ast.ClassDef]:
    """A class of ours and its bases that are ours too, itself first."""
    if (cls := _classes(module).get(name)) is not None:
        return [cls, *(one for base in cls.bases for one in _chain(module, ast.unparse(base)))]
    where = _imports(module).get(name)
    return [] if where is None else _chain(*where)


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in _parsed(module).body if isinstance(node, ast.ClassDef)}


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """The names that a module takes from others of ours: the module and the name there."""
    froms = [node for node in _parsed(module).body if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in froms
        for alias in node.names
        if node.module is not None and node.module.partition(".")[0] == module.partition(".")[0]
    }


@cache
def _parsed(module: str) -> ast.Module:
    package, _, name = module.rpartition(".")
    file = _folder(package) / f"{name}.py"
    return ast.parse(file.read_text(encoding="utf-8") if file.is_file() else "")


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
