"""An experiment: one frozen, validated description of a run, from TOML, the command line or Python."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedtrip.errors import UserError, unknown_name
from fedtrip.partition_spec import parse_partition

PYTHON = "python:"
"""A data set or model given as a Python object is stored as this prefix and its SHA-256."""

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MethodChoice(BaseModel):
    """A method's name and the options that were given for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = "fedtrip"
    options: dict[str, Any] = Field(default_factory=dict)


class Experiment(BaseModel):
    """Everything that decides a run's bits. Fields left out take defaults that may depend on the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    schema_version: Literal[1] = 1
    """version of this description's format"""
    dataset: str = "digits"
    """a known data set, idx:FOLDER or npz:FILE"""
    mean: tuple[float, ...] | None = None
    """input normalisation: mean, one number or one a channel (default: the data set's own)"""
    std: tuple[Rate, ...] | None = None
    """input normalisation: deviation, like `mean`"""
    partition: str | None = None
    """iid, dirichlet:ALPHA, orthogonal:CLUSTERS; data that come split are `given` (default: dirichlet:0.5)"""
    draw: Literal["overlap", "nested", "disjoint"] = "overlap"
    """how clients draw: independently from the whole set, nested (the authors' framework), or without sharing"""
    clients: Count | None = None
    """N, all clients (default: 10, or what the data are split into)"""
    per_round: Count | None = None
    """K, clients chosen each round (default: 4, or all if there are fewer)"""
    samples_per_client: Count | None = None
    """samples of each client (default: the paper's for its data sets, 400 on digits, else an equal part)"""
    model: str = "mlp"
    """mlp, cnn, alexnet or package.module:factory"""
    representation: str | None = None
    """layer whose output is the representation (default: the input of the last linear layer)"""
    method: MethodChoice = MethodChoice()
    """the method and its options"""
    rounds: Count = 100
    """communication rounds"""
    local_epochs: Count = 1
    """E, epochs of local training a round"""
    batch_size: Count = 50
    """B, samples of a local step"""
    lr: Rate = 0.01
    """η, local learning rate"""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """momentum of local SGD (default: the method's: 0 for slowmo and feddyn, 0.9 for the others)"""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """λ of a coupled L2 penalty in local training"""
    keep_optimizer_state: bool = False
    """whether a client keeps its momentum buffer from one of its rounds to the next"""
    eval_every: Count = 1
    """rounds between evaluations on the test set (the last round is always evaluated)"""
    target: Annotated[float, Field(gt=0, le=1)] | None = None
    """test accuracy to reach (default: the paper's for its cases, 0.90 on digits)"""
    stop_at_target: bool = False
    """whether the run ends at the first round that reaches the target"""
    snapshot: tuple[Count, ...] = ()
    """rounds of which the global and the local models are kept"""
    seed: Annotated[int, Field(ge=0)] = 0
    """seed of all randomness"""

    @field_validator("method", mode="before")
    @classmethod
    def _method_from_short_forms(cls, value: object) -> object:
        from fedtrip.methods import Method, name_of, options_of

        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Method):
            return {"name": name_of(value), "options": options_of(value)}
        if isinstance(value, dict) and "options" not in value:
            value = dict(value)
            return {"name": value.pop("name", "fedtrip"), "options": value}
        return value

    @field_validator("partition")
    @classmethod
    def _partition_is_readable(cls, value: str | None) -> str | None:
        if value is not None:
            parse_partition(value)
        return value

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _one_number_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, (int, float)) else value

    @field_validator("snapshot", mode="before")
    @classmethod
    def _rounds_from_text(cls, value: object) -> object:
        return round_list(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.clients is not None and self.per_round is not None and self.per_round > self.clients:
            raise ValueError(f"per_round is {self.per_round}; accepted: at most the number of clients, {self.clients}")
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std go together; accepted: both, or neither")
        if any(number > self.rounds for number in self.snapshot):
            raise ValueError(f"snapshot is {max(self.snapshot)}; accepted: rounds from 1 to {self.rounds}")
        return self

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as problem:
            raise UserError(explain(problem)) from None

    def but(self, **changes: Any) -> Experiment:
        """The same experiment with some fields changed, checked again."""
        return Experiment(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})

    @classmethod
    def from_toml(cls, path: Path) -> Experiment:
        """Read an experiment file; what it leaves out takes its default."""
        try:
            fields = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise UserError(f"experiment file '{path}' cannot be read: {problem.strerror or problem}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise UserError(f"experiment file '{path}' is not valid TOML: {problem}") from None
        try:
            return cls(**fields)
        except UserError as problem:
            raise UserError(f"experiment file '{path}': {problem}") from None

    def to_toml(self) -> str:
        """The experiment as TOML: every field that has a value, the method's options in a table of their own."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude={"method"})
        fields["method"] = {"name": self.method.name, **self.method.options}
        return tomli_w.dumps(fields)


def round_list(text: str) -> tuple[int, ...]:
    """`10,20-22` as (10, 20, 21, 22)."""
    rounds: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("-")
        try:
            rounds.update(range(int(first), int(last or first) + 1))
        except ValueError:
            raise ValueError(f"rounds '{text}' cannot be read; accepted: numbers and ranges like 10,20-30") from None
    return tuple(sorted(rounds))


def explain(problem: ValidationError) -> str:
    """pydantic's findings in one line that names each field, its value and what is accepted."""
    findings = []
    for error in problem.errors():
        field, message = ".".join(str(part) for part in error["loc"]), error["msg"]
        if error["type"] == "extra_forbidden":
            findings.append(str(unknown_name("field", field, Experiment.model_fields)))
        elif error["type"] == "value_error":
            findings.append(message.removeprefix("Value error, "))
        else:
            accepted = message.removeprefix("Input should be ")
            findings.append(f"{field} is {error['input']!r}; accepted: {accepted}")
    return "; ".join(findings)
