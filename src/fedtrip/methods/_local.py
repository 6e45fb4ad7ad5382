"""What a client has for its part of a round, and what a method may hand to its training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from fedtrip.layout import Layout
from fedtrip.vectors import Vectors, axpy


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
            axpy(h, self.a, w_k)
        if self.c is not None:
            h.add_(self.c)

    def operations(self) -> int:
        return (self.a != 0) + (self.c is not None)


class GradientAt(Protocol):
    """The gradient of one step's batch."""

    def __call__(self, offset: Tensor | None = None, /) -> Tensor:
        """The gradient at w_k, or at w_k + offset: the same samples, the same dropout. A vector of its own."""


class Direction(Protocol):
    """What the optimizer gets in place of the gradient, where a method looks elsewhere for it: a `Correction` is the
    cheap case h = gradient() + correction(w_k). Weight decay is added after it, at w_k."""

    def at(self, w_k: Tensor, gradient: GradientAt, step: int, /) -> Tensor:
        """h of the local step with this number, the first being 0. w_k is a copy that it may keep or change.

        Statistics of BatchNorm move in the call of `gradient` without an offset, or in the first if there is none.
        """

    def operations(self) -> int:
        """Multiply-adds for each parameter and step, for the cost accounting."""

    def gradients(self) -> int:
        """How often `gradient` is called in a step, for the cost accounting."""


@dataclass(frozen=True)
class Hidden:
    """The last hidden fully connected layer as a batch passes it: what comes out is inputs·weightᵀ + bias."""

    inputs: Tensor
    """what goes in, a row for each sample"""
    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class Batch:
    """What a method's own loss may look at: which local samples, their labels, the model's outputs and (if asked for)
    its representations of them or its last hidden layer, all with gradient (without, where `gradient` of a `ClosedLoss`
    is asked)."""

    rows: Tensor
    labels: Tensor
    logits: Tensor
    representation: Tensor | None
    hidden: Hidden | None = None


BatchLoss = Callable[[Batch], Tensor]
"""A loss of a batch: a term that is added to the task's, or one in its place. A `ClosedLoss` is one too."""


class BatchGradient(NamedTuple):
    """The gradient of such a loss by what the model computed, and by the weight and bias of its last hidden layer,
    float32 of the same shapes; None: it is zero."""

    logits: Tensor | None = None
    representation: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None


@runtime_checkable
class ClosedLoss(Protocol):
    """A loss of a batch that also has its gradient in closed form: what is trained without autograd can use it too.

    `gradient` sees numbers alone, in a fixed order of arithmetic: it has the same bits on every CPU.
    """

    def __call__(self, batch: Batch, /) -> Tensor:
        """The term of a batch, differentiable."""

    def gradient(self, batch: Batch, /) -> BatchGradient:
        """Its gradient by what the batch holds, which has no graph."""


class LossSizes(Protocol):
    """What the cost of a loss of a batch may depend on, in the letters of `CostSymbols`."""

    @property
    def C(self) -> int: ...
    @property
    def r(self) -> int: ...
    @property
    def h(self) -> int: ...


@runtime_checkable
class CountedLoss(Protocol):
    """A loss of a batch that multiplies matrices of its own, and says so for the cost accounting."""

    def __call__(self, batch: Batch, /) -> Tensor:
        """The term of a batch, differentiable."""

    def operations(self, sizes: LossSizes, /) -> int:
        """Multiply-adds for each sample, forward and backward."""


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
        """How far `train` goes on a gradient that is constant and of length one: Kη, and more with momentum.

        Only for a method that says `needs_travel`: some optimizers have no such distance, and are refused with it.
        """

    def travel_with(self, prox: float) -> float:
        """The same where each step is also pulled back by `prox` times the way it has come, as FedProx's are."""

    @property
    def labels(self) -> Tensor:
        """The labels (or targets) of the local samples; `Batch.rows` are places in it."""

    @property
    def class_counts(self) -> Tensor:
        """How many local samples each class has."""

    @property
    def initial(self) -> Tensor:
        """The parameters that the federation started from (round 0)."""

    @property
    def layout(self) -> Layout:
        """Where the parts of the model lie in its flat vectors."""

    def train(
        self,
        start: Mapping[str, Tensor],
        correction: Correction | None = None,
        extra_loss: BatchLoss | None = None,
        *,
        loss: BatchLoss | None = None,
        direction: Direction | None = None,
        only: Collection[str] | None = None,
        lr_scale: float = 1.0,
        epochs: int | None = None,
        order: str = "batches",
    ) -> Vectors:
        """Local epochs of SGD from the model `start`; returns the trained model.

        The gradient is that of the task's loss, or of `loss` in its place, and of `extra_loss`. Either a `correction`
        is added to it, or a `direction` says where else to look. `only` names the parts of the layout that are
        trained: the others keep their bits. `epochs` is by default the experiment's; a second training of a round with
        an `order` of another name goes through the samples in an order, and with dropout, of its own.
        """

    def representations(self, model: Mapping[str, Tensor]) -> Tensor:
        """The frozen model's representation of every local sample, in eval mode, without gradient."""

    def logits(self, model: Mapping[str, Tensor]) -> Tensor:
        """The frozen model's logits of every local sample, in eval mode, without gradient."""

    def gradient(self, model: Mapping[str, Tensor]) -> Tensor:
        """∇F_k on all local samples at once (weight decay's λw included), dropout off, buffers untouched."""
