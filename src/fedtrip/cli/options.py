"""The options of `run` and `compare`, made from the experiment's own fields: one name everywhere, one place."""

from __future__ import annotations

import functools
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from fedtrip.cli import completion
from fedtrip.errors import UserError
from fedtrip.experiment.description import Experiment
from fedtrip.experiment.own_code import own_code, say_code
from fedtrip.families import COMBINE, FAMILIES
from fedtrip.registry import Choice

PANELS: dict[str, tuple[str, ...]] = {
    "Data": (
        "dataset", "mean", "std", "partition", "draw", "samples_per_client", "validation", "validation_at",
        "client_test",
    ),
    "Federation": ("clients", "per_round", "unseen_clients", "select", "rounds"),
    "Model and task": ("model", "representation", "task"),
    "Local training": (
        "local_epochs", "batch_size", "augment", "lr", "lr_schedule", "optimizer", "momentum", "weight_decay",
        "keep_optimizer_state", "clip",
    ),
    "Uploads and server": ("upload_codec", "combine", "server_optimizer"),
    "Simulated faults": ("attack",),
    "Measuring": (
        "target", "stop_at_target", "eval_every", "eval_clients", "patience", "keep_best", "snapshot", "seed",
    ),
    "Computing": ("device", "compute"),
}  # fmt: skip
"""The experiment's fields that are options, in the order of the help; the method has options of its own."""
FIELDS = {name: panel for panel, names in PANELS.items() for name in names}


def with_experiment_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each experiment field; the command gets those that were given as its argument `fields`."""
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in FIELDS}
        given.update({name: False for name in SWITCHES if arguments.pop(f"no_{name}")})
        fields = {name: value for name, value in given.items() if value is not None}
        for name in ("mean", "std"):
            if name in fields:
                fields[name] = _numbers(name, fields[name])
        if budget := {name: value for name in BUDGET if (value := arguments.pop(name)) is not None}:
            fields["combine"] = _private(fields.get("combine"), budget)
        command(fields=fields, **arguments)

    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _plain_type(name) | None,
                typer.Option(
                    spelling(name),
                    help=_help(name),
                    rich_help_panel=panel,
                    show_default=False,
                    autocompletion=completion.of_field(name),
                ),
            ],
        )
        for name, panel in FIELDS.items()
    ]
    options += [  # to undo what an experiment file says; not shown, because it is rarely needed
        inspect.Parameter(
            f"no_{name}",
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(spelling(f"no_{name}"), hidden=True)],
        )
        for name in SWITCHES
    ]
    options += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                float | None,
                typer.Option(spelling(name), help=text, rich_help_panel="Uploads and server", show_default=False),
            ],
        )
        for name, text in BUDGET.items()
    ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "fields"]
    wrapper.__signature__ = signature.replace(parameters=own[:1] + options + own[1:])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in (*own, *options)}
    return wrapper


BUDGET = {
    "epsilon": "differential privacy of whole clients: ε that all rounds together may cost; the noise follows from it "
    "(combine private)",
    "delta": "δ of --epsilon (default: 1e-5)",
}
"""Short forms of two options of the private rule of combining."""


def _private(combine: str | None, budget: Mapping[str, float]) -> Choice:
    """The private rule with this budget."""
    choice = COMBINE.read("private" if combine is None else combine)
    if choice.name != "private":
        name, value = next(iter(budget.items()))
        raise UserError(f"{spelling(name)} is {value:g}, but --combine is '{combine}'; accepted: --combine private")
    for name, value in budget.items():
        choice = COMBINE.with_option(choice, name, value)
    return choice


_OUTSIDE_A_LIST = re.compile(r",(?![^\[]*\])")
"""A comma between two values, not within one that is a list."""


def read_settings(settings: list[str]) -> dict[str, list[Any]]:
    """`--set key=v1,v2` as {key: [v1, v2]}; a value is read as TOML would, otherwise as text."""
    result: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not (key and equals and text):
            raise UserError(f"--set '{setting}' cannot be read; accepted: NAME=VALUE, e.g. method.mu=0.4")
        if key.strip() in result:
            raise UserError(f"--set {key.strip()} is given more than once; accepted: once, values comma-separated")
        result[key.strip()] = [_value(part) for part in _OUTSIDE_A_LIST.split(text)]
    return result


DataDir = Annotated[
    Path | None,
    typer.Option(
        help="folder with the data sets, each in a folder of its own (default: the folder FEDTRIP_DATA names, then "
        "your cache folder; what is in neither is downloaded)",
        rich_help_panel="Data",
    ),
]
ExperimentFile = Annotated[
    Path | None,
    typer.Argument(metavar="EXPERIMENT.toml", help="an experiment file; the options below change single fields"),
]
TrialEngine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="where the runs run; does not change results (default: local)", show_default=False),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--address", help="the Ray cluster, e.g. auto or HOST:6379 (default: a Ray started here)", show_default=False
    ),
]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="write TensorBoard event files too (needs the extra tensorboard)")
]


def absolute(path: Path | None) -> Path | None:
    """A folder that the user named, independent of later changes of the working folder."""
    return None if path is None else path.expanduser().absolute()


def say_code_of_file(base: Experiment, file: Path | None, given: Mapping[str, Any]) -> None:
    """Which code an experiment file names that a run of it imports; what the command line names, its author knows."""
    if file is not None:
        say_code(own_code(base, [name for name in (*FAMILIES, "model") if given.get(name) is None]))


def _plain_type(name: str) -> Any:
    """int, float or bool for a field that is one (or may be left out); text for everything else."""
    if name == "eval_clients":  # every:N
        return str
    annotation = Experiment.model_fields[name].annotation
    while get_args(annotation) and get_origin(annotation) not in (tuple, Literal):
        annotation = get_args(annotation)[0]  # of `Annotated[int, …]` and `… | None` the first is what counts
    return next((kind for kind in (int, float, bool) if annotation is kind), str)


SWITCHES = tuple(name for name in FIELDS if _plain_type(name) is bool)


def rules_in_words(field: str) -> str:
    """The ways to name a rule of a family, for a help text."""
    return f"{', '.join(FAMILIES[field].forms())}, or your own as package.module:Class"


def _help(name: str) -> str:
    field = Experiment.model_fields[name]
    text = " ".join((field.description or "").replace("`", "").split())
    if name in FAMILIES:
        what, bracket, default = text.partition(" (default")
        text = f"{what}: {rules_in_words(name)}{bracket}{default}"
    plain = not (field.default is None or field.default is False or field.default == ())
    return text + (f" (default: {field.default})" if plain else "")


def spelling(name: str) -> str:
    """The option of an experiment's field."""
    return f"--{name.replace('_', '-')}"


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"{name} is '{text}'; accepted: one number, or one a channel, comma-separated") from None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()
