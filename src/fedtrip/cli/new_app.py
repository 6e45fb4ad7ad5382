"""`fedtrip new-app`: a Flower app of one's own, ready to run."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fedtrip.cli.console import out
from fedtrip.errors import UserError
from fedtrip.files.atomic import check_parent_writable

PUBLISHER = "me"


def new_app(
    name: Annotated[str, typer.Argument(help="name of the app and of the folder that is written")],
) -> None:
    """Write a Flower app: pyproject.toml, experiment.toml, a data loader and a README.

    It runs as it is, on two nodes that share fedtrip's digits; docs/deploy.md shows how.

    Example: fedtrip new-app hospital
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UserError(f"name '{name}' is not accepted; accepted: small letters, digits and hyphens, e.g. my-app")
    folder, package = Path(name).absolute(), name.replace("-", "_")
    if folder.exists():
        raise UserError(f"'{name}' is there already; accepted: a new name")
    check_parent_writable(folder, "name")
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").touch()
    for target in ("pyproject.toml", "experiment.toml", "README.md", f"{package}/data.py"):
        template = resources.files("fedtrip.flower") / "template" / f"{Path(target).name}.txt"
        text = template.read_text(encoding="utf-8")
        for word, value in (("name", name), ("package", package), ("publisher", PUBLISHER)):
            text = text.replace("{" + word + "}", value)
        (folder / target).write_text(text, encoding="utf-8")
    out.print(f"{name}/ is written; next: its README.md", markup=False, soft_wrap=True)
