"""Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from fedtrip.terminal import err, out

__all__ = ["err", "out", "print_json", "typed_command"]


def print_json(content: Any) -> None:
    """Plain JSON on stdout, whatever the terminal; what it would obey is written as JSON's own escapes."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    print("".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text))


def typed_command() -> str:
    """The command line as it was typed, quoted for a shell."""
    return shlex.join(["fedtrip", *sys.argv[1:]])
