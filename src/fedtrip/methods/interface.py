"""What a federated method is: a few pure functions over named flat vectors.

A method says what the server keeps and sends, what a chosen client does with it, and how the server folds the
uploads in. It never touches a process, a socket, a file or a random generator: local training, selection,
transport and bookkeeping are done around it, the same for every method and every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

Vectors = dict[str, Tensor]
"""Named flat vectors. A model is such a dict: `w` (all trainable parameters) and, if the module has them,
`buffers` (floating-point buffers, BatchNorm's statistics) and `counters` (integer buffers)."""


class Correction(Protocol):
    """A change of the gradient that is handed to the optimizer: h = g + correction(w_k)."""

    def add_to(self, h: Tensor, w_k: Tensor) -> None:
        """Add the correction at the current local parameters w_k to h, in place."""

    def operations(self) -> int:
        """Multiply-adds for each parameter and step, for the cost accounting."""


@dataclass(frozen=True)
class Affine:
    """h = g + a·w_k + c with a and c fixed for the whole round: one multiply-add and one add a step."""

    a: float
    c: Tensor | None = None

    def add_to(self, h: Tensor, w_k: Tensor) -> None:
        if self.a != 0:
            h.add_(w_k, alpha=self.a)
        if self.c is not None:
            h.add_(self.c)

    def operations(self) -> int:
        return (self.a != 0) + (self.c is not None)


@dataclass(frozen=True)
class Batch:
    """What an extra loss term may look at: which local samples, the model's logits and (if asked for) its
    representations of them, both with gradient."""

    rows: Tensor
    logits: Tensor
    representation: Tensor | None


ExtraLoss = Callable[[Batch], Tensor]


class Local(Protocol):
    """The tools a client has for its part of a round; its data and its random generators stay behind them."""

    @property
    def round(self) -> int:
        """t, the current round; the first is 1."""

    @property
    def exchange(self) -> int:
        """Which exchange of the round this is; the first is 0."""

    @property
    def lr(self) -> float:
        """η, the local learning rate of this round."""

    @property
    def steps(self) -> int:
        """K, the local steps that `train` takes: E·ceil(n_k / B)."""

    @property
    def travel(self) -> float:
        """How far `train` goes on a gradient that is constant and of length one: Kη, and more with momentum."""

    @property
    def initial(self) -> Tensor:
        """The parameters that the federation started from (round 0)."""

    def train(
        self,
        start: Mapping[str, Tensor],
        correction: Correction | None = None,
        extra_loss: ExtraLoss | None = None,
        *,
        lr_scale: float = 1.0,
    ) -> Vectors:
        """Local epochs of SGD from the model `start`; returns the trained model."""

    def representations(self, model: Mapping[str, Tensor]) -> Tensor:
        """The frozen model's representation of every local sample, in eval mode, without gradient."""

    def logits(self, model: Mapping[str, Tensor]) -> Tensor:
        """The frozen model's logits of every local sample, in eval mode, without gradient."""

    def gradient(self, model: Mapping[str, Tensor]) -> Tensor:
        """∇F_k on all local samples at once (weight decay's λw included), dropout off, buffers untouched."""


MOMENTUM = "optimizer momentum"
"""Name under which a kept momentum lies beside a memory's vectors; no method's vector has a space in its name."""


@dataclass(frozen=True)
class Memory:
    """What one client keeps between its rounds. A client that was dropped or refused keeps what it had."""

    vectors: Vectors = field(default_factory=dict)
    last_round: int | None = None
    momentum: Tensor | None = None

    def __getitem__(self, name: str) -> Tensor:
        return self.vectors[name]

    def size_in_bytes(self) -> int:
        """What a client must store between its rounds."""
        return sum(vector.nbytes for vector in self.packed().values())

    def packed(self) -> Vectors:
        """All vectors of the memory in one dict, the optimizer's momentum among them."""
        return self.vectors if self.momentum is None else {**self.vectors, MOMENTUM: self.momentum}

    @classmethod
    def unpacked(cls, vectors: Vectors, last_round: int | None) -> Memory:
        """The memory that `packed` made these vectors of."""
        kept = {name: vector for name, vector in vectors.items() if name != MOMENTUM}
        return cls(kept, last_round, vectors.get(MOMENTUM))

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
    """The letters of the paper's Table 8, for one client and one round."""

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


def total(uploads: Sequence[Upload], name: str, weighting: Weighting) -> Tensor:
    """Σ_k weight_k · vector_k in float64, in client order, so that no engine can change its bits."""
    result = torch.zeros_like(uploads[0][name], dtype=torch.float64)
    for upload in sorted(uploads, key=lambda upload: upload.client):
        weight = float(upload.samples) if weighting == "samples" else 1.0
        result.add_(upload[name], alpha=weight)
    return result


def mean(uploads: Sequence[Upload], name: str, weighting: Weighting) -> Tensor:
    """The mean of the clients' vectors, weighted by sample count or uniform, in float64."""
    weights = sum(upload.samples for upload in uploads) if weighting == "samples" else len(uploads)
    return total(uploads, name, weighting).div_(float(weights))


class Method:
    """Base of all methods: a frozen dataclass of hyper-parameters, and FedAvg's server around an abstract client.

    A method of one's own subclasses it, decorated with `@dataclass(frozen=True)`; the fields are its options,
    checked by their type annotations (pydantic's `Annotated[float, Field(ge=0)]` gives a range).
    """

    title: ClassVar[str] = ""
    """What it is, in one line."""
    momentum: ClassVar[float] = 0.9
    """Default momentum of the local optimizer."""
    weighting: ClassVar[Weighting] = "samples"
    """How the uploads are weighted where the method takes a mean."""
    exchanges: ClassVar[int] = 1
    """Exchanges (down and up) in a round."""
    server_operations: ClassVar[int] = 0
    """Multiply-adds of the server for each parameter and round, beside the mean of the uploads."""
    needs_representation: ClassVar[bool] = False
    """Whether `Local.representations` and `Batch.representation` are used."""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """Defaults that depend on the model or the data set, as some of the paper's do, or on the options given."""
        return {}

    def start(self, w: Tensor) -> Vectors:  # noqa: ARG002
        """The server's own state before the first round."""
        return {}

    def broadcast(self, server: Server) -> Vectors:
        """What every chosen client receives in this exchange."""
        return server.model

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        """A chosen client's part of this exchange."""
        raise NotImplementedError

    def expected(self, server: Server) -> Vectors:
        """Vectors like those that a client sends in this exchange: it is an error if its code sends others.

        Of clients on other machines, which may send anything, such an upload is refused.
        """
        return server.model

    def aggregate(self, server: Server, uploads: Sequence[Upload]) -> Server:
        """w ← mean of the uploads."""
        return server.updated(w=mean(uploads, "w", self.weighting))

    def attaching(self, cost: CostSymbols) -> Attaching | None:  # noqa: ARG002
        """The cost of the attaching operations as in the paper's Table 8; None if it is not declared."""
        return None
