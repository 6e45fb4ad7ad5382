"""An experiment: one frozen, validated description of a run, from TOML, the command line or Python."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Never, Self

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from fedtrip.arguments import checked_arguments
from fedtrip.errors import UserError, unknown_name
from fedtrip.families import (
    ATTACK,
    AUGMENT,
    COMBINE,
    LR_SCHEDULE,
    METHOD,
    OPTIMIZER,
    PARTITION,
    SELECT,
    SERVER_OPTIMIZER,
    TASK,
    UPLOAD_CODEC,
)
from fedtrip.registry import Choice, Family, Rule
from fedtrip.tasks.interface import ACCURACY

PYTHON = "python:"
"""A data set or model given as a Python object is stored as this prefix and its SHA-256."""

LARGEST = 2**63 - 1  # the largest integer of TOML
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
MOST_SNAPSHOTS = 1_000_000
DecidedCompute = Literal["native", "native-evaluation", "torch"]
Compute = Literal["auto", DecidedCompute]


@dataclass(frozen=True)
class RuleOf:
    """Marks a field that names a rule of a family: a text, a table or an object, kept as a `Choice`.

    A built-in rule's options are checked at once. A user's own class is not imported here: reading a file runs no code.
    """

    family: Family

    def checked(self, value: object) -> Choice:
        """The choice that the value stands for."""
        choice = self.family.read(value)
        if self.family is not METHOD and choice.name in self.family.names():  # a method's depend on data and model
            self.family.make(choice)
        return choice

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        """How pydantic reads and writes such a field."""
        del source, handler
        return core_schema.no_info_plain_validator_function(
            self.checked, serialization=core_schema.plain_serializer_function_ser_schema(Choice.as_toml)
        )


class Experiment(BaseModel):
    """Everything that decides a run's bits. Fields left out take defaults that may depend on the others."""

    # strict: `true` is no number, and "3" neither
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, strict=True)

    schema_version: Literal[2] = 2
    """version of this description's format"""
    dataset: str = "digits"
    """a known data set, or your own: npz:FILE, npy:FOLDER, idx:FOLDER, table:FILE or hf:FOLDER"""
    mean: tuple[Finite, ...] | None = None
    """input normalisation: mean, one number or one a channel (default: the data set's own)"""
    std: tuple[Rate, ...] | None = None
    """input normalisation: deviation, like `mean`"""
    partition: str | None = None
    """which samples each client has (default: dirichlet:0.5, given if the data come split, iid without classes)"""
    draw: Literal["overlap", "nested", "disjoint"] = "overlap"
    """overlap: clients draw independently from the whole set; nested: as in the authors' framework; disjoint: no
    sample has two clients"""
    clients: Count | None = None
    """N, all clients (default: 10, or what the data are split into)"""
    per_round: Count | None = None
    """K, clients chosen each round (default: 4, or all if there are fewer)"""
    samples_per_client: Count | None = None
    """samples of each client, or their mean where they are unequal (default: the paper's for its data sets, 400 on
    digits, else an equal part; all are divided by shards, quantity and dirichlet-classes)"""
    model: str = "mlp"
    """a built-in model (`fedtrip models`), or package.module:factory"""
    representation: str | None = None
    """layer whose output is the representation (default: the input of the last linear layer)"""
    task: Annotated[Choice, RuleOf(TASK)] = Choice("classification")
    """what is learnt, with its loss and its scores"""
    method: Annotated[Choice, RuleOf(METHOD)] = Choice("fedtrip")
    """the method and its options"""
    rounds: Count = 100
    """communication rounds"""
    local_epochs: Count = 1
    """E, epochs of local training a round"""
    batch_size: Count = 50
    """B, samples of a local step"""
    augment: Annotated[Choice, RuleOf(AUGMENT)] = Choice("none")
    """random changes of the inputs of each training batch"""
    lr: Rate = 0.01
    """η, local learning rate"""
    lr_schedule: Annotated[Choice, RuleOf(LR_SCHEDULE)] = Choice("constant")
    """the local learning rate over the rounds"""
    optimizer: Annotated[Choice, RuleOf(OPTIMIZER)] = Choice("sgd")
    """local optimizer"""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """momentum of local SGD (default: the method's: 0 for slowmo, feddyn, scaffold and mimelite, else 0.9)"""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """λ of a coupled L2 penalty in local training"""
    keep_optimizer_state: bool = False
    """a client keeps its optimizer's state, such as the momentum, from one of its rounds to the next"""
    clip: str | None = None
    """longest local step: a length like 10 for the step after all corrections, gradient:10 for the gradient alone"""
    select: Annotated[Choice, RuleOf(SELECT)] = Choice("uniform")
    """who takes part in a round"""
    upload_codec: Annotated[Choice, RuleOf(UPLOAD_CODEC)] = Choice("none")
    """how uploads are coded"""
    combine: Annotated[Choice, RuleOf(COMBINE)] = Choice("mean")
    """how uploads are combined"""
    server_optimizer: Annotated[Choice, RuleOf(SERVER_OPTIMIZER)] = Choice("none")
    """how the server steps towards what was combined"""
    attack: Annotated[Choice, RuleOf(ATTACK)] = Choice("none")
    """simulated faulty clients"""
    validation: Share = 0.0
    """share of the training set on which nobody trains, to tune and to stop early by"""
    validation_at: Literal["server", "clients"] = "server"
    """who has the validation samples: the server, or each client a part of its own samples"""
    client_test: Share = 0.0
    """share of each client's samples on which nobody trains: the client's own test set"""
    eval_every: Count = 1
    """rounds between evaluations on the test set; the last round is always evaluated"""
    eval_clients: Count | None = None
    """rounds between evaluations on the clients' own test sets, as every:N; the last round is always one"""
    unseen_clients: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """so many clients, the last ones, never take part: how the model serves them is told apart"""
    patience: Count | None = None
    """end the run after so many evaluations without a better score on the validation set"""
    keep_best: bool = False
    """the final model is that of the round with the best score on the validation set, not that of the last round"""
    target: Finite | None = None
    """test accuracy to reach, or the score that the task says (default: the paper's for its cases, 0.90 on digits)"""
    stop_at_target: bool = False
    """end the run at the first round that reaches the target"""
    snapshot: tuple[Count, ...] = ()
    """rounds of which the global and the local models are kept, e.g. 10,20-30"""
    seed: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """seed of all randomness"""
    device: str = "cpu"
    """where clients train and models are scored: cpu, cuda, cuda:INDEX or mps; all else is on the CPU"""
    compute: Compute = "auto"
    """what computes: native, torch, native-evaluation (training by torch), or auto, which chooses by the model's
    layers"""

    @field_validator("partition", mode="before")
    @classmethod
    def _partition_is_readable(cls, value: object) -> object:
        """A partition is a text, so that tables and titles can show it; an object is kept as the text that names it."""
        if value is None:
            return None
        choice = PARTITION.complete(value) if isinstance(value, Rule) else RuleOf(PARTITION).checked(value)
        if choice.options:
            told = f"partition '{choice}' has options beside its parameter; accepted: NAME or NAME:PARAMETER"
            raise UserError(told)
        return choice.text

    @field_validator("clip", mode="before")
    @classmethod
    def _clip_is_readable(cls, value: object) -> object:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = f"{value:g}"
        if isinstance(value, str):
            from fedtrip.optimizers._clip import read_clip  # here, because it brings PyTorch

            read_clip(value)
        return value

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _one_number_is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, (int, float)) else _tuple(value)

    @field_validator("eval_clients", mode="before")
    @classmethod
    def _rounds_from_every(cls, value: object) -> object:
        """`every:5` is 5."""
        if not isinstance(value, str):
            return value
        number = value.removeprefix("every:")
        if not number.isdecimal():
            raise ValueError(f"eval_clients is '{value}'; accepted: every:N, N rounds between two evaluations")
        return int(number)

    @field_validator("snapshot", mode="before")
    @classmethod
    def _rounds_from_short_forms(cls, value: object) -> object:
        return round_list(value) if isinstance(value, str) else (value,) if isinstance(value, int) else _tuple(value)

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.clients is not None and self.per_round is not None and self.per_round > self.clients:
            raise ValueError(f"per_round is {self.per_round}; accepted: at most the number of clients, {self.clients}")
        if self.target is not None and self.task.name == TASK.default:  # of others `complete` asks the task itself
            ACCURACY.check_target(self.target)
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std go together; accepted: both, or neither")
        for name in ("patience", "keep_best"):
            if getattr(self, name) and not self.validation:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, but validation is 0; accepted: a share above 0, such as 0.1, "
                    "because the test set is not for choosing"
                )
        if self.validation + self.client_test >= 1:
            raise ValueError(
                f"validation is {self.validation} and client_test is {self.client_test}; accepted: together below 1"
            )
        if any(number > self.rounds for number in self.snapshot):
            raise ValueError(f"snapshot is {max(self.snapshot)}; accepted: rounds from 1 to {self.rounds}")
        return self

    def __init__(self, /, *unnamed: Never, **fields: Any) -> None:
        if unnamed:
            told = f"Experiment was given {_short(unnamed[0])} without a name"
            raise UserError(f"{told}; accepted: fields by their names, such as Experiment(method='fedavg')")
        try:
            super().__init__(**fields)
        except ValidationError as problem:
            raise UserError(explain(problem)) from None

    def __eq__(self, other: object) -> bool:
        """Whether all fields are the same; one that is complete equals the one that its file holds."""
        return isinstance(other, Experiment) and self.__dict__ == other.__dict__

    def but(self, **changes: Any) -> Self:
        """The same experiment with some fields changed, checked again."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})

    @classmethod
    @checked_arguments()
    def from_toml(cls, path: Path | str) -> Experiment:
        """Read an experiment file; what it leaves out takes its default."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as problem:
            raise UserError(f"experiment file '{path}' cannot be read: {problem.strerror or problem}") from None
        except UnicodeDecodeError as problem:
            raise UserError(f"experiment file '{path}' is not valid TOML: {problem}") from None
        return cls.from_text(text, f"experiment file '{path}'")

    @classmethod
    def from_text(cls, text: str, called: str = "experiment") -> Experiment:
        """Read the text of an experiment file, which errors call so."""
        try:
            fields = tomllib.loads(text)
        except ValueError as problem:  # bad TOML, an integer of more digits than Python reads
            raise UserError(f"{called} is not valid TOML: {problem}") from None
        except RecursionError:
            raise UserError(f"{called} is not valid TOML: it is nested too deeply") from None
        try:
            return cls(**of_this_version(fields))
        except UserError as problem:
            raise UserError(f"{called}: {problem}") from None

    def to_toml(self) -> str:
        """The experiment as TOML: every field that has a value, the method's options in a table of their own.

        TOML has no null: an option that is None is left out too, and is its default again when it is read.
        """
        return tomli_w.dumps(_without_none(self.model_dump(mode="json")))


def of_this_version(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a stored description, those of version 1 in today's words; a name that changed sides is refused."""
    version = fields.get("schema_version")
    if version is True or version != 1:
        return dict(fields)
    now = {name: value for name, value in fields.items() if name != "schema_version"}
    method = now.get("method", "fedtrip")
    table = dict(method) if isinstance(method, Mapping) else {"name": method}
    if isinstance(options := table.get("options"), Mapping):
        table = {**{name: value for name, value in table.items() if name != "options"}, **options}
    if table.get("name", "fedtrip") == "fedtrip":
        raise UserError(
            "schema_version is 1, where method 'fedtrip' had more options: now 'fedtrip' is the paper's method (mu), "
            "and our rules, its defaults then, are 'fedtrip-auto' (push, tau); accepted: schema_version = 2 and one of "
            "the two"
        )
    dropout, corrupt = now.pop("dropout", 0), now.pop("corrupt", 0)
    if corrupt:
        now["attack"] = {"name": f"corrupt:{corrupt}", **({"dropout": dropout} if dropout else {})}
    elif dropout:
        now["attack"] = f"dropout:{dropout}"
    return {**now, "method": table if isinstance(method, Mapping) else method}


def difference(mine: Experiment, theirs: Experiment) -> str | None:
    """The first field in which another experiment is not mine, in words; None if they are the same."""
    here, there = (tomllib.loads(both.to_toml()) for both in (mine, theirs))  # TOML has no None, no tuple
    for name in Experiment.model_fields:
        if here.get(name) != there.get(name):
            return f"its {name} is {there.get(name)!r}, here it is {here.get(name)!r}"
    return None


def round_list(text: str) -> tuple[int, ...]:
    """`10,20-22` as (10, 20, 21, 22)."""
    rounds: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        try:
            span = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            span = range(0)
        if not span:
            raise ValueError(f"rounds '{text}' cannot be read; accepted: numbers and ranges like 10,20-30")
        if len(span) > MOST_SNAPSHOTS:
            raise ValueError(f"rounds '{text}' are too many; accepted: at most {MOST_SNAPSHOTS:,}")
        rounds.update(span)
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
            findings.append(f"{field} is {_short(error['input'])}; accepted: {accepted}")
    return "; ".join(findings)


def _tuple(value: object) -> object:
    """TOML has lists where Python has tuples."""
    return tuple(value) if isinstance(value, list) else value


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value if inner is not None] if isinstance(value, list) else value


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= 80 else f"{text[:77]}..."
