"""`fedtrip methods`, `datasets`, `models`: what there is, with defaults."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedtrip.cli.console import out, print_json

Json = Annotated[bool, typer.Option("--json", help="print as JSON")]


def methods(as_json: Json = False) -> None:
    """Explain the methods: what each does, its formula, its options and their defaults."""
    from fedtrip.experiment.defaults import default_momentum
    from fedtrip.families import METHOD
    from fedtrip.registry import explain_rule

    explained = [explain_rule(METHOD, name) for name in METHOD.names()]
    listing: dict[str, dict[str, Any]] = {
        rule.name: {
            "title": rule.title,
            "formula": rule.formula,
            "momentum": default_momentum(rule.name),
            "options": [dataclasses.asdict(option) for option in rule.options],
        }
        for rule in explained
    }
    if as_json:
        print_json(listing)
        return
    for name, entry in listing.items():
        out.print(f"[bold]{name}[/]  {entry['title']}")
        _indented(entry["formula"], 2)
        _indented(f"local momentum: {entry['momentum']}", 2, style="dim")
        for option in entry["options"]:
            _indented(f"--set {name}.{option['name']}={option['default']}", 2)
            _indented(f"{option['help']}; accepted: {option['accepted']}", 6, style="dim")
        out.print()
    out.print("Your own: --method package.module:Class, a subclass of fedtrip.Method.", soft_wrap=True)


def datasets(as_json: Json = False) -> None:
    """List the data sets: samples, classes, samples a client, default target."""
    from fedtrip.data.catalog import KNOWN_SETS
    from fedtrip.experiment.defaults import default_target

    listing = [
        {
            "name": known.name,
            "title": known.title,
            "train": known.train,
            "test": known.test,
            "classes": known.classes,
            "shape": list(known.shape),
            "samples_per_client": known.samples_per_client,
            "target": default_target(known.name, "cnn"),
        }
        for known in KNOWN_SETS.values()
    ]
    if as_json:
        print_json(listing)
        return
    columns = {
        "name": "name", "train": "train", "test": "test", "classes": "classes", "shape": "shape",
        "samples_per_client": "samples\na client", "target": "target",
    }  # fmt: skip
    _print_table(listing, columns)
    out.print("The target on mnist is 0.87 for the mlp. digits comes with fedtrip.", soft_wrap=True)
    out.print("Where the other files are and how to get them: fedtrip data list.", soft_wrap=True)
    out.print(
        "Your own files: idx:FOLDER (four idx files), or npz:FILE (x_train, y_train, x_test, y_test and, if the data "
        "come split, client_train)."
    )


def models(as_json: Json = False) -> None:
    """List the models: parameters and multiply-adds of a forward pass."""
    from fedtrip.models import MODELS, build_model
    from fedtrip.training.costs import pass_cost

    listing = []
    for name, known in MODELS.items():
        shape = (3, 32, 32) if name == "alexnet" else (1, 28, 28)
        module = build_model(name, shape, 10, 0)
        cost = pass_cost(module, shape)
        parameters = sum(p.numel() for p in module.parameters())
        listing.append(
            {
                "name": name,
                "description": known.description,
                "input": list(shape),
                "parameters": parameters,
                "megabytes": parameters * 4 / 1e6,
                "forward_macs": cost.forward,
                "training_macs": cost.training,
            }
        )
    if as_json:
        print_json(listing)
        return
    for entry in listing:
        out.print(f"[bold]{entry['name']}[/]  {entry['description']}")
    columns = {
        "name": "name", "input": "for input", "parameters": "parameters", "megabytes": "MB",
        "forward_macs": "forward MACs\na sample", "training_macs": "training MACs\na sample",
    }  # fmt: skip
    _print_table(listing, columns)
    out.print("Your own: --model package.module:factory, a function that returns a torch.nn.Module.", soft_wrap=True)


def _print_table(listing: list[dict[str, Any]], columns: dict[str, str]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for number, title in enumerate(columns.values()):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    for entry in listing:
        table.add_row(*(_text(entry[key]) for key in columns))
    out.print(table)


def _indented(text: str, columns: int, style: str = "") -> None:
    """Text whose later lines are indented as its first."""
    out.print(Padding(Text(text, style=style), (0, 0, 0, columns)))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "×".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
