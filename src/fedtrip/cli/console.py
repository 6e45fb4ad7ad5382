"""Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from rich.console import Console

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_json(content: Any) -> None:
    """Plain JSON on stdout, whatever the terminal."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def typed_command() -> str:
    """The command line as it was typed, quoted for a shell."""
    return shlex.join(["fedtrip", *sys.argv[1:]])
