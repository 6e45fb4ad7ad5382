"""FedLC (Zhang et al., 2022): logits that are calibrated by how often a client sees each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Attaching, Batch, BatchGradient, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors, softmax_rows, square_root


@dataclass(frozen=True)
class FedLc(Method):
    """loss CE(z − τ·n_{k,c}^{−1/4}, y), n_{k,c} the client's samples of class c; a class that it lacks drops out

    A class of which the client has no sample is at −∞: its probability is 0, and no gradient reaches its logit. That is
    so for every τ > 0; τ = 0 is the cross entropy over all classes, FedAvg's. The loss is for training alone: models
    are evaluated by their plain logits. Nothing more travels, nothing is kept.

    Departs from the paper: the sum in its denominator leaves out the true class, so that its loss has no lower bound.
    Here all classes are in the sum, as in the public implementations that we read. The paper tunes τ.
    """

    title = "cross entropy with a margin for each class, the larger the rarer the class is at the client"
    group = "losses"
    formula = r"""
    loss: \text{CE}(z - \tau\,n_{k,c}^{-1/4},\; y)
    with: n_{k,c} \text{ the samples of class } c \text{ at client } k
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"tau": Range(0.1, 3.0, "log")}
    needs_classes = True
    replaces_loss = True

    tau: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """τ, size of the margins"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        if self.tau == 0:
            return Reply(upload=local.train(received))
        return Reply(upload=local.train(received, loss=CalibratedCrossEntropy(margins(local.class_counts, self.tau))))

    def kept(self, server: Server) -> Vectors:
        return {}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(cost.K * cost.M * cost.C, "K·M·C", "0", from_paper=False)


def margins(counts: Tensor, tau: float) -> Tensor:
    """τ·n_{k,c}^{−1/4} of each class; ∞ for a class without samples."""
    return (tau / square_root(square_root(counts.double()))).to(torch.float32)


@dataclass(frozen=True)
class CalibratedCrossEntropy:
    """CE(z − margin, y), the mean over the batch: FedLC's loss."""

    margin: Tensor
    """what is taken off the logit of each class"""

    def __call__(self, batch: Batch) -> Tensor:
        return functional.cross_entropy(batch.logits - self.margin.to(batch.logits.device), batch.labels)

    def gradient(self, batch: Batch) -> BatchGradient:
        """(softmax(z − margin) − onehot(y))/n for a batch of n samples."""
        slope = softmax_rows(batch.logits - self.margin, 1.0)
        slope -= functional.one_hot(batch.labels, len(self.margin))
        return BatchGradient(logits=(slope / len(batch.rows)).to(torch.float32))
