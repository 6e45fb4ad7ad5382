"""FedDecorr (Shi et al., 2023): the features of a representation are kept from saying the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import (
    Attaching,
    Batch,
    BatchGradient,
    CostSymbols,
    Local,
    LossSizes,
    Memory,
    Method,
    Reply,
    Server,
)
from fedtrip.vectors import Vectors, row_dots, row_products, square_root

DEAD_EPS = 1e-8
"""What is added to a feature's variance under the root: one that is the same in the whole batch stays 0."""


@dataclass(frozen=True)
class FedDecorr(Method):
    """loss CE + β·ℓ, ℓ = (1/M)·mean over i ≠ j of (XᵀX)_ij², X the batch's M representations, standardised by column

    A column is one of the r features over the batch: it gets mean 0 and variance 1 (taken with M − 1, and 1e-8 more
    under the root). ℓ is 0 for a batch of one sample. The representation is what goes into the last fully connected
    layer, or what comes out of the layer that `representation` names. Nothing more travels, nothing is kept.

    Departs from the paper: its (1/r²)‖K‖_F², K the matrix of correlations, does not grow with the batch. Here ℓ is the
    official code's, (M − 1)²/M times the mean of K's squares off the diagonal, since β = 0.1 belongs to that, and to
    M = 64: with another batch size the same β weighs more or less.
    """

    title = "no two features of the representation may say the same: a penalty on their correlations"
    group = "losses"
    formula = r"""
    loss: \text{CE} + \beta\,\ell
    with: \ell = \frac{1}{M} \cdot \frac{1}{r(r - 1)} \sum_{i \ne j} (X^\top X)_{ij}^2
    and: X \text{ the } M \text{ representations of a batch, standardised by column}
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"beta": Range(0.01, 1.0, "log")}
    needs_representation = True

    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """β, weight of the correlations, for batches of 64"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        return Reply(upload=local.train(received, extra_loss=Decorrelation(self.beta) if self.beta > 0 else None))

    def kept(self, server: Server) -> Vectors:
        return {}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(3 * cost.K * cost.M * cost.r**2, "3K·M·r²", "0", from_paper=False)


@dataclass(frozen=True)
class Decorrelation:
    """β·ℓ of a batch: FedDecorr's extra loss."""

    beta: float

    def __call__(self, batch: Batch) -> Tensor:
        assert batch.representation is not None
        return self.beta * decorrelation_loss(batch.representation)

    def gradient(self, batch: Batch) -> BatchGradient:
        """β·∂ℓ/∂x."""
        assert batch.representation is not None
        if min(batch.representation.shape) == 1:
            return BatchGradient()
        return BatchGradient(representation=(self.beta * decorrelation_slope(batch.representation)).to(torch.float32))

    def operations(self, sizes: LossSizes) -> int:
        """One product for the correlations, and two on the way back."""
        return 3 * sizes.r**2


def decorrelation_loss(x: Tensor) -> Tensor:
    """ℓ of the representations x, a row for each sample; with one sample or one feature there is nothing to compare."""
    samples, features = x.shape
    if min(samples, features) == 1:
        return x.new_zeros(())
    apart = x - x.mean(0)
    standard = apart / torch.sqrt(apart.square().sum(0) / (samples - 1) + DEAD_EPS)
    products = standard.T @ standard
    off_diagonal = products - torch.diag(products.diagonal())
    return off_diagonal.square().sum() / (features * (features - 1)) / samples


def decorrelation_slope(x: Tensor) -> Tensor:
    """∂ℓ/∂x in float64. With s the root of a column's variance and y = (x − mean)/s,

    a = ∂ℓ/∂y = 4/(M·r(r − 1))·y·C, C = yᵀy without its diagonal, and ∂ℓ/∂x = (a − y·Σ(a·y)/(M − 1))/s less its mean.
    Sums are over a column, which is a row here.
    """
    columns = x.T.contiguous()
    features, samples = columns.shape
    apart = columns - _row_means(columns)
    s = square_root(row_dots(apart, apart) / (samples - 1) + DEAD_EPS)[:, None]
    y = (apart / s).to(torch.float32)
    correlated = row_products(y, y).fill_diagonal_(0).to(torch.float32)
    a = 4 / (samples * features * (features - 1)) * row_products(correlated, y.T.contiguous())
    slope = (a - y * (row_dots(a, y) / (samples - 1))[:, None]) / s
    return (slope - _row_means(slope)).T.contiguous()


def _row_means(x: Tensor) -> Tensor:
    """The mean of each row, in float64."""
    return (row_dots(x, torch.ones_like(x)) / x.shape[1])[:, None]
