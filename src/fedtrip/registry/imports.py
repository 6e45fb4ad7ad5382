"""Objects that a user names as `package.module:attribute`: the only way a user's code is ever run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from fedtrip.errors import UserError


def import_object(spec: str, kind: str) -> Any:
    """The object that `spec` names, found as Python would find it from the current folder."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise UserError(f"{kind} '{spec}' cannot be read; accepted: package.module:name")
    if "<locals>" in attribute:
        name = attribute.rpartition(".")[2]
        told = f"'{name}' is defined inside a function, where no other program finds it"
        raise UserError(f"{kind} '{spec}' cannot be imported: {told}; accepted: one at the top of a file or notebook")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()  # a module written a moment ago is found too
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as problem:
        told = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
        raise UserError(f"{kind} '{spec}' cannot be imported: {told}; accepted: package.module:name") from problem
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UserError(f"{kind} '{spec}' cannot be imported: module '{module_name}' has no '{attribute}'")
        found = getattr(found, part)
    return found
