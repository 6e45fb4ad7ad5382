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


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
