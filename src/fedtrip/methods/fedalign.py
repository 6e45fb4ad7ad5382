"""FedAlign (Mendieta et al., 2022): a layer cut to a part of its width is to carry as much as the whole one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.methods.interface import (
    Attaching,
    Batch,
    BatchGradient,
    CostSymbols,
    Hidden,
    Local,
    LossSizes,
    Memory,
    Method,
    Reply,
    Server,
)
from fedtrip.vectors import Vectors, log_softmax_rows, row_dots, row_products, square_root, total

SMALLEST = 1e-12
"""What is added to ℓ where it divides: a layer of whole width has ℓ = 0."""


@dataclass(frozen=True)
class FedAlign(Method):
    """loss CE + μ·(CE/ℓ)·ℓ, the factor CE/ℓ a constant; ℓ = mean over the batch of (‖h_s‖·‖f_s‖ − ‖h‖·‖f‖)²

    h goes into the last hidden fully connected layer, f = W·h + b comes out. h_s is the first share ω of h, f_s what
    the first share ω of the layer's outputs make of h_s alone. ‖h‖·‖f‖ is the largest singular value of h·fᵀ, a matrix
    of rank 1. The whole layer is the goal: h and f are constants, and only the weights that make f_s have a gradient.
    It is μ·CE·∇log ℓ, however small ℓ is. Nothing more travels, nothing is kept.

    Departs from the official code: what is cut there is the last stage of a residual network, seen after its ReLU, and
    singular values come of ten power iterations. The closed form here is for one fully connected layer, seen before its
    activation. There widths are rounded to multiples of eight, here to whole numbers; there the gradient is cut to a
    length of 10, which `clip = "step:10"` does here. 1e-12 is added to ℓ where it divides, as ℓ = 0 has no log.
    """

    title = "a hidden layer cut to a quarter of its width is made to pass on as much as the whole layer"
    group = "paper"
    formula = r"""
    loss: \text{CE} + \mu\,\frac{\text{CE}}{\ell}\,\ell, \quad \text{the factor } \text{CE}/\ell \text{ a constant}
    with: \ell = \frac{1}{M} \sum \big(\|h_s\|\,\|f_s\| - \|h\|\,\|f\|\big)^2 \text{ over a batch}
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"mu": Range(0.05, 2.0, "log"), "width": Choices(0.25, 0.5)}
    needs_classes = True
    needs_hidden = True
    replaces_loss = True  # the factor CE is the cross entropy, and no other loss

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.45
    """μ, weight of the alignment, beside the cross entropy's 1"""
    width: Annotated[float, Field(gt=0, le=1)] = 0.25
    """ω, share of the layer's inputs and outputs that are left"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        return Reply(upload=local.train(received, extra_loss=Alignment(self.mu, self.width) if self.mu > 0 else None))

    def kept(self, server: Server) -> Vectors:
        return {}

    def attaching(self, cost: CostSymbols) -> Attaching:
        flops = cost.K * cost.M * (1 + 2 * self.width**2) * cost.h
        return Attaching(flops, "K·M(1+2ω²)h", "0", from_paper=False)


@dataclass(frozen=True)
class Alignment:
    """μ·(CE/ℓ)·ℓ of a batch, the factor a constant: FedAlign's extra loss."""

    mu: float
    width: float

    def __call__(self, batch: Batch) -> Tensor:
        assert batch.hidden is not None
        ell = alignment_loss(batch.hidden, self.width)
        ce = functional.cross_entropy(batch.logits, batch.labels)
        return self.mu * (ce / (ell + SMALLEST)).detach() * ell

    def gradient(self, batch: Batch) -> BatchGradient:
        """μ·CE/ℓ·∂ℓ/∂W and ∂ℓ/∂b, which are zero outside the part that is left."""
        assert batch.hidden is not None
        log_p = log_softmax_rows(batch.logits).gather(1, batch.labels[:, None])
        ell, by_weight, by_bias = alignment_slope(batch.hidden, self.width)
        factor = self.mu * -total(log_p) / len(batch.rows) / (ell + SMALLEST)
        weight, bias = torch.zeros_like(batch.hidden.weight), batch.hidden.bias
        weight[: by_weight.shape[0], : by_weight.shape[1]] = factor * by_weight
        if bias is not None:
            bias = torch.zeros_like(bias)
            bias[: len(by_bias)] = factor * by_bias
        return BatchGradient(weight=weight, bias=bias)

    def operations(self, sizes: LossSizes) -> int:
        """f once more; f_s, and on the way back the gradient of its weights."""
        return sizes.h + 2 * round(self.width**2 * sizes.h)


def alignment_loss(hidden: Hidden, width: float) -> Tensor:
    """ℓ, the mean over the batch."""
    part = _slim(hidden, width)
    h, h_s = hidden.inputs.detach(), part.inputs.detach()
    f, f_s = (functional.linear(x, layer.weight, layer.bias) for x, layer in ((h, hidden), (h_s, part)))
    goal, found = (i.norm(dim=1) * o.norm(dim=1) for i, o in ((h, f.detach()), (h_s, f_s)))
    return functional.mse_loss(found, goal)


def alignment_slope(hidden: Hidden, width: float) -> tuple[float, Tensor, Tensor]:
    """ℓ, and ∂ℓ/∂W = Σ δ·h_sᵀ and ∂ℓ/∂b = Σ δ of the part that is left, in float64.

    δ = ∂ℓ/∂f_s = (2/n)·(‖h_s‖‖f_s‖ − ‖h‖‖f‖)·‖h_s‖·f_s/‖f_s‖ for a batch of n samples, and 0 where f_s = 0.
    """
    part = _slim(hidden, width)
    h_s, f_s = part.inputs.contiguous(), _outputs(part)
    goal = _lengths(hidden.inputs) * _lengths(_outputs(hidden))
    long, out = _lengths(h_s), _lengths(f_s)
    gap = long * out - goal
    along = torch.where(out > 0, 2 / len(h_s) * gap * long / out, 0.0)
    delta = (along[:, None] * f_s).T.contiguous()
    by_weight = row_products(delta.to(torch.float32), h_s.T.contiguous())
    return total(gap * gap) / len(h_s), by_weight, row_dots(delta, torch.ones_like(delta))


def _slim(hidden: Hidden, width: float) -> Hidden:
    """The layer with the first share of its inputs and of its outputs, at least one of each."""
    outputs, inputs = (max(1, round(width * size)) for size in hidden.weight.shape)
    bias = None if hidden.bias is None else hidden.bias[:outputs]
    return Hidden(hidden.inputs[:, :inputs], hidden.weight[:outputs, :inputs], bias)


def _outputs(hidden: Hidden) -> Tensor:
    """What comes out of the layer, in float64 and in fixed order."""
    products = row_products(hidden.inputs.contiguous(), hidden.weight.contiguous())
    return products if hidden.bias is None else products + hidden.bias


def _lengths(rows: Tensor) -> Tensor:
    return square_root(row_dots(rows, rows))
