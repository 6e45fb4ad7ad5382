"""`fedtrip list`: the families, their rules, a rule; `methods`, `datasets` and `models` are shorter words for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedtrip.cli import completion
from fedtrip.cli.console import out, print_json
from fedtrip.errors import unknown_name
from fedtrip.families import FAMILIES, METHOD, PARTITION, model_names
from fedtrip.registry import Family

Json = Annotated[bool, typer.Option("--json", help="print as JSON")]
Listing = dict[str, dict[str, Any]]
DATASET, MODEL = "dataset", "model"
ORDER = (
    DATASET, "partition", "augment", MODEL, "task", "method", "optimizer", "lr_schedule", "select", "upload_codec",
    "combine", "server_optimizer", "attack",
)  # fmt: skip
"""The families in the order in which one meets them: data, model, training, the round."""


def list_rules(
    family: Annotated[
        str | None,
        typer.Argument(
            help="a family: the experiment's field (upload_codec) or its folder (codecs)",
            autocompletion=completion.families,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="one of its rules, or your own as package.module:Class",
            autocompletion=lambda ctx, incomplete: completion.listed(ctx.params.get("family") or "", incomplete),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what an experiment can be made of: the families of rules, the rules of one, or one rule.

    A rule is explained with its formula, its options, their defaults and what is accepted.

    Examples:

      fedtrip list

      fedtrip list optimizer

      fedtrip list upload_codec topk
    """
    if family is None:
        _show_families(as_json)
        return
    field = _field(family)
    if field == DATASET:
        _show_data_sets(name, as_json)
    elif field == MODEL:
        _show_models(name, as_json)
    else:
        _show_rules(FAMILIES[field], name, as_json)


def methods(as_json: Json = False) -> None:
    """Explain the methods: what each does, its formula, its options and their defaults."""
    _show_rules(METHOD, None, as_json)


def datasets(as_json: Json = False) -> None:
    """List the data sets: samples, classes, samples a client, default target."""
    _show_data_sets(None, as_json)


def models(as_json: Json = False) -> None:
    """List the models: parameters and multiply-adds of a forward pass."""
    _show_models(None, as_json)


def _field(word: str) -> str:
    """The experiment's field that is meant by its own name or by the name of its folder."""
    words = {DATASET: DATASET, "data": DATASET, "datasets": DATASET, MODEL: MODEL, "models": MODEL}
    for field, family in FAMILIES.items():
        words |= {field: field, family.folder: field}
    if word not in words:
        raise unknown_name("family", word, words)
    return words[word]


def _families() -> Listing:
    """Every family, with what a rule of it says and how its rules are written; nothing is imported for it."""
    from fedtrip.data.catalog import KNOWN_SETS
    from fedtrip.data.sources import FORMS

    known: Listing = {
        DATASET: {
            "folder": "data",
            "says": "where the samples come from",
            "default": "digits",
            "rules": [*KNOWN_SETS, *FORMS.values()],
        },
        MODEL: {"folder": "models", "says": "the module that is trained", "default": "mlp", "rules": model_names()},
    }
    known |= {
        field: {"folder": family.folder, "says": family.says, "default": family.default, "rules": family.forms()}
        for field, family in FAMILIES.items()
    }
    return {field: known[field] for field in ORDER}


def _show_families(as_json: bool) -> None:
    listing = _families()
    if as_json:
        print_json(listing)
        return
    for field, entry in listing.items():
        folder = "" if entry["folder"] == field else f" ({entry['folder']})"
        out.print(f"[bold]{field}[/]{folder}  {entry['says']}", highlight=False)
        _indented(", ".join(entry["rules"]), 4)
    out.print()
    out.print("The first of each is the default. More about one: fedtrip list FAMILY [NAME].")
    out.print("Your own: package.module:Class in place of a name; for a model package.module:factory.")


def _show_rules(family: Family, name: str | None, as_json: bool) -> None:
    names = family.names() if name is None else [family.read(name).name]
    listing = {one: _explained(family, one) for one in names}
    if as_json:
        print_json(listing)
        return
    for one, entry in listing.items():
        out.print(f"[bold]{entry['form']}[/]  {entry['title']}", highlight=False)
        _indented(entry["formula"], 2)
        if "momentum" in entry:
            _indented(f"local momentum: {entry['momentum']}", 2, style="dim")
        for option in entry["options"]:
            owner = one if family is METHOD else family.field
            default = "…" if option["default"] is None else _plain(option["default"])
            told = (
                f"{option['name']} = {default}" if family is PARTITION else f"--set {owner}.{option['name']}={default}"
            )
            _indented(told, 2)  # a partition's options stand behind its colons
            tuned = entry.get("ranges", {}).get(option["name"])
            told = f"{option['help']}; accepted: {option['accepted']}" + (f"; tuned over {tuned}" if tuned else "")
            _indented(told, 6, style="dim")
        out.print()
    if name is None:
        base = f"{family.package}.interface.{family.base}"
        _indented(f"Your own: package.module:Class, a subclass of {base}.", 0)


def _explained(family: Family, name: str) -> dict[str, Any]:
    """A rule as JSON has it: everything its class says."""
    import dataclasses

    from fedtrip.registry.explanation import explain_rule

    rule = explain_rule(family, name)
    colon = family.colon_of(name)
    entry: dict[str, Any] = {
        "form": name if colon is None else f"{name}:{colon.option.upper()}",
        "title": rule.title,
        "formula": rule.formula,
    }
    if family is METHOD:
        from fedtrip.experiment.defaults import default_momentum

        entry["momentum"] = default_momentum(name)
        ranges = getattr(METHOD.find(name), "ranges", {})
        entry["ranges"] = {option: str(values) for option, values in ranges.items()}
    return {**entry, "options": [dataclasses.asdict(option) for option in rule.options]}


def _show_data_sets(name: str | None, as_json: bool) -> None:
    from fedtrip.data.catalog import KNOWN_SETS, known_set
    from fedtrip.experiment.defaults import default_target

    listing: Listing = {
        known.name: {
            "title": known.title,
            "train": known.train,
            "test": known.test,
            "classes": known.classes,
            "shape": list(known.shape),
            "samples_per_client": known.samples_per_client,
            "target": default_target(known.name, "cnn"),
        }
        for known in (KNOWN_SETS.values() if name is None else [known_set(name)])
    }
    if as_json:
        print_json(listing)
        return
    columns = {
        "train": "train", "test": "test", "classes": "classes", "shape": "shape",
        "samples_per_client": "samples\na client", "target": "target",
    }  # fmt: skip
    _print_table(listing, columns)
    out.print("The target on mnist is 0.87 for the mlp. digits comes with fedtrip.", soft_wrap=True)
    out.print("Where the other files are and how to get them: fedtrip data list.", soft_wrap=True)
    out.print(
        "Your own files: idx:FOLDER (four idx files), npz:FILE and npy:FOLDER (x_train, y_train, x_test, y_test and, "
        "if the data come split, client_train), table:FILE (CSV or Parquet), hf:FOLDER (saved by Hugging Face's "
        "datasets)."
    )


def _show_models(name: str | None, as_json: bool) -> None:
    from fedtrip.models import build_model, check_model_spec, model_class, usual_samples
    from fedtrip.one_thread import one_thread
    from fedtrip.training.costs import pass_cost

    if name is not None:
        check_model_spec(name)
    listing: Listing = {}
    for one in model_names() if name is None else [name]:
        inputs, classes = usual_samples(one)
        module = build_model(one, inputs, classes, 0)
        with one_thread():
            cost = pass_cost(module, inputs)
        parameters = sum(p.numel() for p in module.parameters())
        listing[one] = {
            "title": "your own" if ":" in one else vars(model_class(one))["title"],
            "input": list(inputs.shape),
            "parameters": parameters,
            "megabytes": parameters * 4 / 1e6,
            "forward_macs": cost.forward,
            "training_macs": cost.training,
        }
    if as_json:
        print_json(listing)
        return
    for one, entry in listing.items():
        out.print(f"[bold]{one}[/]  {entry['title']}")
    columns = {
        "input": "for input", "parameters": "parameters", "megabytes": "MB",
        "forward_macs": "forward MACs\na sample", "training_macs": "training MACs\na sample",
    }  # fmt: skip
    _print_table(listing, columns)
    out.print("Your own: --model package.module:factory, a function that returns a torch.nn.Module.", soft_wrap=True)


def _print_table(listing: Listing, columns: dict[str, str]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    for title in columns.values():
        table.add_column(title, justify="right", no_wrap=True)
    for name, entry in listing.items():
        table.add_row(name, *(_text(entry[key]) for key in columns))
    out.print(table)


def _indented(text: str, columns: int, style: str = "") -> None:
    """Text whose later lines are indented as its first."""
    out.print(Padding(Text(text, style=style), (0, 0, 0, columns)))


def _plain(value: Any) -> str:
    """A value as `--set` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "×".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
