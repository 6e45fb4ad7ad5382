"""`fedtrip new KIND NAME`: a rule of one's own and its test, which pass as they are."""

from __future__ import annotations

import importlib.util
import keyword
import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fedtrip.cli.console import out
from fedtrip.errors import UserError
from fedtrip.files.atomic import check_parent_writable, write_text

app = typer.Typer(
    no_args_is_help=True,
    help="Write a method, task, partition or codec of your own: one short file and its test, which pass pytest as they "
    "are.\n\nThen change the formula, and the test with it.",
)
Name = Annotated[str, typer.Argument(help="what it is called, e.g. my-method: my_method.py with the class MyMethod")]

USED = {
    "method": "--method {}",
    "task": "--task {}",
    "partition": "--partition {}:0.2",
    "codec": "--upload-codec {}",
}
"""Kind → the option that takes it."""


@app.command()
def method(name: Name) -> None:
    """Write a method: what a client does with the model it receives.

    Example: fedtrip new method my-method
    """
    write_rule("method", name)


@app.command()
def task(name: Name) -> None:
    """Write a task: the loss that is trained, and the scores.

    Example: fedtrip new task my-task
    """
    write_rule("task", name)


@app.command()
def partition(name: Name) -> None:
    """Write a partition: which samples each client holds.

    Example: fedtrip new partition my-partition
    """
    write_rule("partition", name)


@app.command()
def codec(name: Name) -> None:
    """Write a codec: how an upload becomes bytes, and back.

    Example: fedtrip new codec my-codec
    """
    write_rule("codec", name)


def write_rule(kind: str, name: str) -> None:
    """Write NAME.py and test_NAME.py into the working folder."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise UserError(f"name '{name}' is not accepted; accepted: small letters, digits and hyphens, e.g. my-{kind}")
    module = re.sub("-", "_", name)
    words = {"{module}": module, "{class}": "".join(part.capitalize() for part in module.split("_"))}
    files = {f"{module}.py": f"{kind}.py.txt", f"test_{module}.py": f"test_{kind}.py.txt"}
    for file in files:
        if Path(file).exists():
            raise UserError(f"'{file}' is there already; accepted: a new name")
    if importlib.util.find_spec(module) is not None:
        raise UserError(f"name '{name}' is that of a module that Python has already; accepted: a new one")
    check_parent_writable(Path(f"{module}.py"), "name")
    for file, template in files.items():
        text = (resources.files("fedtrip.cli") / "templates" / template).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        write_text(Path(file), text)
    use = USED[kind].format(f"{module}:{words['{class}']}")
    out.print(f"{', '.join(files)} are written; next: pytest test_{module}.py", markup=False, soft_wrap=True)
    out.print(f"use it: fedtrip run {use}", markup=False, soft_wrap=True)
