"""FedNTD (Lee et al., 2022): what the global model knows of the other classes is not to be forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.methods.interface import Attaching, Batch, BatchGradient, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors, softmax_rows


@dataclass(frozen=True)
class FedNtd(Method):
    """loss CE + β·τ²·KL(softmax(z̃_glob/τ) ‖ softmax(z̃/τ)), z̃ the logits of the C − 1 classes that are not the sample's

    The teacher is the global model as the client received it; the term is a mean over the batch. Nothing more travels,
    nothing is kept. With two classes one logit is left, its probability is 1 in every model, and the term is always 0.

    Departs from the official code: that leaves the teacher in the mode in which it happens to be, and asks it again in
    every epoch. Here it is in eval mode and asked once a round. τ = 1 is the official configuration's; the class there
    has 3.
    """

    title = "distillation from the global model over the classes that a sample is not of"
    group = "losses"
    formula = r"""
    loss: \text{CE} + \beta\,\tau^2\,\mathrm{KL}\big(\mathrm{softmax}(\tilde z_{\text{glob}}/\tau) \,\big\|\,
        \mathrm{softmax}(\tilde z/\tau)\big)
    with: \tilde z \text{ the logits of the classes that a sample is not of}
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"beta": Range(0.1, 3.0, "log"), "tau": Choices(1.0, 2.0, 3.0)}
    needs_classes = True

    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """β, weight of the distillation loss"""
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """τ, its temperature"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        if self.beta == 0:
            return Reply(upload=local.train(received))
        taught = local.logits(received)
        return Reply(upload=local.train(received, extra_loss=NotTrueDistillation(taught, self.beta, self.tau)))

    def kept(self, server: Server) -> Vectors:
        return {}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(cost.K * cost.M * cost.FP, "K·M·FP", "0", from_paper=False)


@dataclass(frozen=True)
class NotTrueDistillation:
    """β·τ²·KL(teacher ‖ student) over the not-true classes, the mean over the batch: FedNTD's extra loss."""

    taught: Tensor
    """the global model's logits of every local sample"""
    beta: float
    tau: float

    def __call__(self, batch: Batch) -> Tensor:
        return self.beta * not_true_loss(self.taught[batch.rows], batch.logits, batch.labels, self.tau)

    def gradient(self, batch: Batch) -> BatchGradient:
        """β·τ·(softmax(z̃/τ) − softmax(z̃_glob/τ))/n for a batch of n samples; 0 at the true class."""
        if batch.logits.shape[1] <= 2:
            return BatchGradient()
        places = not_true(batch.labels, batch.logits.shape[1])
        student, teacher = (
            softmax_rows(z.gather(1, places), self.tau) for z in (batch.logits, self.taught[batch.rows])
        )
        slope = (self.beta * self.tau / len(batch.rows) * (student - teacher)).to(torch.float32)
        return BatchGradient(logits=torch.zeros_like(batch.logits).scatter(1, places, slope))


def not_true_loss(teacher: Tensor, student: Tensor, labels: Tensor, tau: float) -> Tensor:
    """τ²·KL(softmax(z̃_glob/τ) ‖ softmax(z̃/τ)), the mean over the batch."""
    places = not_true(labels, student.shape[1])
    goal, log_probabilities = (functional.log_softmax(z.gather(1, places) / tau, dim=1) for z in (teacher, student))
    return tau**2 * functional.kl_div(log_probabilities, goal, reduction="batchmean", log_target=True)


def not_true(labels: Tensor, classes: int) -> Tensor:
    """The C − 1 classes that each sample is not of, in their order: c, or c + 1 from the label on."""
    others = torch.arange(classes - 1, device=labels.device)
    return others + (others >= labels[:, None])
