"""What a federated method is: a few pure functions over named flat vectors.

A method says what the server keeps and sends, what a chosen client does with it, and how the server folds the
uploads in. It never touches a process, a socket, a file or a random generator: local training, selection,
transport and bookkeeping are done around it, the same for every method and every engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedtrip.errors import UserError, shortened
from fedtrip.families import METHOD
from fedtrip.layout import Layout
from fedtrip.methods._local import (
    Affine,
    Batch,
    BatchGradient,
    BatchLoss,
    ClosedLoss,
    Correction,
    CountedLoss,
    Direction,
    GradientAt,
    Hidden,
    Local,
    LossSizes,
)
from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.printable import one_line
from fedtrip.registry import Rule
from fedtrip.vectors import Vectors, copied, size_in_bytes

__all__ = [
    "Affine", "Attaching", "Batch", "BatchGradient", "BatchLoss", "Choices", "ClosedLoss", "Correction", "CostSymbols",
    "CountedLoss", "Direction", "GradientAt", "Hidden", "Local", "LossSizes", "Memory", "Method", "Range", "Ranges",
    "Reply", "Server", "Upload", "Uploads", "make_method",
]  # fmt: skip


OPTIMIZER, CODEC, PERSONAL = "optimizer ", "codec ", "personal "
"""What the names of other vectors begin with beside the method's own, which have no space in their names."""


@dataclass(frozen=True)
class Memory:
    """What one client keeps between its rounds. A client that was dropped or refused keeps what it had."""

    vectors: Vectors = field(default_factory=dict)
    """the method's own"""
    last_round: int | None = None
    optimizer: Vectors = field(default_factory=dict)
    """the local optimizer's state, where clients keep it"""
    codec: Vectors = field(default_factory=dict)
    """what an upload codec with error feedback has not sent yet"""
    personal: Vectors = field(default_factory=dict)
    """the parts of the model that never travel"""

    def __getitem__(self, name: str) -> Tensor:
        return self.vectors[name]

    def size_in_bytes(self) -> int:
        """What a client must store between its rounds."""
        return size_in_bytes(self.packed())

    def packed(self) -> Vectors:
        """All vectors of the memory in one dict."""
        return {
            **self.vectors,
            **{OPTIMIZER + name: vector for name, vector in self.optimizer.items()},
            **{CODEC + name: vector for name, vector in self.codec.items()},
            **{PERSONAL + name: vector for name, vector in self.personal.items()},
        }

    @classmethod
    def unpacked(cls, vectors: Vectors, last_round: int | None) -> Memory:
        """The memory that `packed` made these vectors of."""
        parts: dict[str, Vectors] = {prefix: {} for prefix in (OPTIMIZER, CODEC, PERSONAL, "")}
        for name, vector in vectors.items():
            prefix = next(prefix for prefix in parts if name.startswith(prefix))
            parts[prefix][name.removeprefix(prefix)] = vector
        return cls(parts[""], last_round, parts[OPTIMIZER], parts[CODEC], parts[PERSONAL])

    def copied(self) -> Memory:
        """The same memory in vectors of its own."""
        return Memory.unpacked(copied(self.packed()), self.last_round)

    @property
    def is_new(self) -> bool:
        """Whether the client has never taken part (with success)."""
        return self.last_round is None


@dataclass(frozen=True)
class Reply:
    """What a client's part of an exchange results in: what it sends up, and what it keeps for its next turn."""

    upload: Vectors
    keep: Vectors = field(default_factory=dict)


@dataclass(frozen=True)
class Upload:
    """One client's accepted upload, as the server sees it."""

    client: int
    samples: int
    vectors: Vectors

    def __getitem__(self, name: str) -> Tensor:
        return self.vectors[name]


@dataclass(frozen=True)
class Uploads:
    """The accepted uploads of an exchange, as `aggregate` sees them: what the rule of combining made of each name."""

    count: int
    """how many clients' uploads were accepted"""
    means: Vectors
    """by name: the weighted mean, or what another rule of combining has in its place; float64"""
    totals: Vectors
    kept: tuple[Upload, ...] = ()
    """each upload on its own, in client order, where the method asks for that"""

    def mean(self, name: str) -> Tensor:
        """Σ_k p_k · vector_k in float64, p_k as the method's `weighting` says, added in client order."""
        return _declared(self.means, name, "means")

    def total(self, name: str) -> Tensor:
        """Σ_k vector_k in float64, added in client order."""
        return _declared(self.totals, name, "totals")

    def each(self) -> tuple[Upload, ...]:
        """Every upload, in client order; only for a method that says `needs_each`."""
        if len(self.kept) != self.count:
            raise UserError("the method looks at each upload without saying so; accepted: `needs_each = True`")
        return self.kept


def _declared(combined: Vectors, name: str, where: str) -> Tensor:
    if name not in combined:
        told = ", ".join(combined) or "none"
        raise UserError(f"the method asks for '{name}', which its `{where}` does not name; named are: {told}")
    return combined[name]


@dataclass(frozen=True)
class Server:
    """What the server holds at one moment of round t: the global model and the method's own state."""

    model: Vectors
    state: Vectors = field(default_factory=dict)
    round: int = 0
    exchange: int = 0
    clients: int = 1
    lr: float = 0.01

    @property
    def w(self) -> Tensor:
        """The global parameters."""
        return self.model["w"]

    def updated(self, w: Tensor | None = None, **state: Tensor) -> Server:
        """The server after an exchange: new global parameters (if given) and new values of its own state."""
        model = self.model if w is None else {**self.model, "w": w.to(torch.float32)}
        return replace(self, model=model, state={**self.state, **state})


@dataclass(frozen=True)
class CostSymbols:
    """The letters of the paper's Table 8, for one client and one round, and those that other methods need."""

    K: int
    """local iterations of all epochs"""
    M: int
    """batch size"""
    n: int
    """local samples"""
    w: int
    """|w|, model parameters"""
    FP: float
    """cost of one sample's forward pass"""
    BP: float
    """cost of one sample's backward pass"""
    C: int = 0
    """outputs of the model: classes"""
    r: int = 0
    """numbers of a sample's representation; 0 if the model has none"""
    h: int = 0
    """weights of the last hidden fully connected layer; 0 if the model has none"""


@dataclass(frozen=True)
class Attaching:
    """What a method adds to FedAvg for one client and round, counted as the paper's Table 8 does."""

    flops: float
    formula: str
    """`flops` in the letters of `CostSymbols`"""
    communication: str
    """what is sent more than FedAvg's model down and model up, in all"""
    from_paper: bool
    """whether the formula is the paper's; otherwise it is ours, made the same way"""


Weighting = Literal["samples", "uniform"]
Group = Literal["", "paper", "server", "steps", "losses", "personal"]
"""Where the page of methods tells of one: the FedTrip paper names it; its rule is the server's; its clients take other
steps; they have another loss; clients have models of their own. Empty: nowhere, a method of one's own."""


class Method(Rule):
    """Base of all methods: a frozen dataclass of hyper-parameters; what a method does not say is FedAvg's.

    A method of one's own subclasses it, decorated with `@dataclass(frozen=True)`; the fields are its options,
    checked by their type annotations (pydantic's `Annotated[float, Field(ge=0)]` gives a range).
    """

    label: ClassVar[str] = ""
    """What it is called in tables, figures and reports; by default by its name, of one's own class by the class's, with
    the options that differ from their defaults. A subclass does not inherit it."""
    group: ClassVar[Group] = ""
    """Its place in `docs/methods.md`."""
    formula: ClassVar[str] = ""
    """The docstring's formula for `docs/methods.md`: each line is a row `what: TeX`, such as
    `server: w \\leftarrow \\bar w`; one that is indented deeper belongs to the row before."""
    momentum: ClassVar[float] = 0.9
    """Default momentum of the local optimizer."""
    weighting: ClassVar[Weighting] = "samples"
    """How the uploads are weighted where the method takes a mean."""
    exchanges: ClassVar[int] = 1
    """Exchanges (down and up) in a round."""
    trainings: ClassVar[int] = 1
    """How often a client trains in a round: each training has a state of the local optimizer, where that is kept."""
    server_operations: ClassVar[int] = 0
    """Multiply-adds of the server for each parameter and round, beside the mean of the uploads."""
    server_operations_each: ClassVar[int] = 0
    """The same for each parameter of each accepted upload."""
    means: ClassVar[tuple[str, ...]] = ("w",)
    """The vectors of which `aggregate` takes the mean."""
    totals: ClassVar[tuple[str, ...]] = ()
    """The vectors of which `aggregate` takes the sum; a rule of combining other than the mean has none."""
    needs_each: ClassVar[bool] = False
    """Whether `aggregate` looks at each upload on its own."""
    needs_representation: ClassVar[bool] = False
    """Whether `Local.representations` and `Batch.representation` are used."""
    needs_hidden: ClassVar[bool] = False
    """Whether `Batch.hidden` is used, the last hidden fully connected layer; never together with representations."""
    needs_classes: ClassVar[bool] = False
    """Whether it looks at outputs as classes, which a task such as regression does not have."""
    replaces_loss: ClassVar[bool] = False
    """Whether it trains on a form of the cross entropy of its own: no other loss of a task fits then."""
    needs_travel: ClassVar[bool] = False
    """Whether `Local.travel` is used."""
    optimizers: ClassVar[tuple[str, ...] | None] = None
    """The local optimizers that its mathematics fits; None if any does."""
    ranges: ClassVar[Ranges] = {}
    """What `fedtrip tune` tunes its options over, by name; the learning rate is tuned for every method."""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Defaults that depend on the model or the data set, as some of the paper's do, or on the options given."""
        return {}

    def stays(self, layout: Layout) -> frozenset[str]:
        """The names of the parameters and buffers that never travel: each client has its own, a newcomer the first."""
        return frozenset()

    def personal_model(self, model: Vectors, memory: Memory) -> Vectors:
        """The model that serves one client, made of the global one and what the client keeps; by default the global.

        The parts that never travel are the client's already.
        """
        return model

    def personalise(self, received: Vectors, memory: Memory, local: Local) -> Vectors:
        """The same where a client trains for it, which is done when clients' own models are scored, and for that alone.

        A method that has this trains with an `order` of its own. Nothing of it is kept, sent or counted as a cost.
        """
        return self.personal_model(received, memory)

    def remark(self, layout: Layout) -> str | None:
        """What one should know of the method with a model of this layout: told before the first round, and in the
        result."""
        return None

    def start(self, w: Tensor) -> Vectors:
        """The server's own state before the first round."""
        return {}

    def broadcast(self, server: Server) -> Vectors:
        """What every chosen client receives in this exchange."""
        return server.model

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        """A chosen client's part of this exchange: FedAvg's, it trains what it received and sends it back."""
        return Reply(upload=local.train(received))

    def expected(self, server: Server) -> Vectors:
        """Vectors like those that a client sends in this exchange: it is an error if its code sends others.

        Of clients on other machines, which may send anything, such an upload is refused.
        """
        return server.model

    def kept(self, server: Server) -> Vectors | None:
        """Vectors like those that a client keeps between its rounds, so that a run can say before its first round what
        they will take; None if that is not declared, and is seen then after the first round."""
        return {} if type(self).client is Method.client else None

    def weights(self, uploads: Sequence[Upload]) -> list[float]:
        """How much each upload counts in a mean, by what all of them say; only their ratios matter.

        A method with weights of its own has all uploads of an exchange held until the last has come.
        """
        return [float(upload.samples) if self.weighting == "samples" else 1.0 for upload in uploads]

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        """w ← mean of the uploads."""
        return server.updated(w=uploads.mean("w"))

    def attaching(self, cost: CostSymbols) -> Attaching | None:
        """The cost of the attaching operations as in the paper's Table 8; None if it is not declared."""
        return None


def own_label(cls: type[Rule]) -> str | None:
    """The label that a class gives itself, in one line; None if it gives none."""
    label = vars(cls).get("label")
    if label is None or cls is Method:
        return None
    if not isinstance(label, str) or not one_line(label):
        raise UserError(f"method '{METHOD.name_of(cls)}': label is {shortened(repr(label))}; accepted: a text")
    return one_line(label)


def make_method(name: str, options: Mapping[str, Any], *, model: str, dataset: str) -> Method:
    """The method with these options; others take their defaults for the model and the data set."""
    choice = METHOD.read({"name": name, **options})
    cls = METHOD.find(choice.name)
    assert issubclass(cls, Method)
    made: Method = METHOD.make(choice, **cls.defaults_for(model, dataset, choice.options))
    return made
