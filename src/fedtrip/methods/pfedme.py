"""pFedMe (Dinh, Tran and Nguyen, 2020): clients follow the gradient of their Moreau envelope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.methods.interface import (
    Attaching,
    CostSymbols,
    GradientAt,
    Local,
    Memory,
    Method,
    Reply,
    Server,
    Uploads,
)
from fedtrip.vectors import Vectors, axpy


@dataclass(frozen=True)
class PFedMe(Method):
    """step λ(w_k − θ), θ by R steps η_p·(g(θ) + λ(θ − w_k)) on the same batch; server w ← (1−β)w + β·mean of w_k

    θ starts a round at w and goes on from step to step; the last one is the client's own model, kept with the
    statistics of BatchNorm that its round ended with. A newcomer's is the global model.

    η is the experiment's learning rate, and λη says how much of the way to θ a step goes: the paper's λ = 15 belongs to
    η = 0.005, and λη above 1 goes past θ.

    Departs from the official code: that has all clients train in every round and draws only whom it averages, and adds
    a weight decay of 0.001 to the steps of θ. Here those who are drawn train, and the experiment's weight decay pulls
    w_k.
    """

    title = "clients step towards personal models near their own; plain SGD"
    group = "personal"
    formula = r"""
    R times: \theta \leftarrow \theta - \eta_p\,[g(\theta) + \lambda\,(\theta - w_k)]
    step: \lambda\,(w_k - \theta)
    server: w \leftarrow (1 - \beta)\,w + \beta\,\bar w
    own: \theta
    """
    momentum = 0.0
    server_operations = 2
    optimizers = ("sgd",)  # w_k ← w_k − ηλ(w_k − θ) is a step of plain SGD
    ranges: ClassVar[Ranges] = {
        "lam": Range(1.0, 30.0, "log"),
        "eta_p": Range(0.01, 0.3, "log"),
        "beta": Choices(1.0, 2.0),
    }

    lam: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 15.0
    """λ, how near θ is kept to w_k"""
    steps: Annotated[int, Field(ge=0)] = 5
    """R, steps of θ in each local step"""
    eta_p: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.09
    """η_p, their learning rate"""
    beta: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """β, how far the server goes to the mean"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        envelope = Envelope(received["w"].clone(), self.lam, self.steps, self.eta_p)
        trained = local.train(received, direction=envelope)
        return Reply(upload=trained, keep={**trained, "w": envelope.theta})

    def personal_model(self, model: Vectors, memory: Memory) -> Vectors:
        return model if memory.is_new else memory.vectors

    def kept(self, server: Server) -> Vectors:
        return server.model

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        return server.updated(w=(1 - self.beta) * server.w.double() + self.beta * uploads.mean("w"))

    def attaching(self, cost: CostSymbols) -> Attaching:
        more = (self.steps - 1) * cost.K * cost.M * (cost.FP + cost.BP)
        return Attaching(more + 3 * self.steps * cost.K * cost.w, "(R−1)K·M(FP+BP) + 3RK|w|", "0", from_paper=False)


@dataclass
class Envelope:
    """λ(w_k − θ), the gradient of the Moreau envelope at w_k where θ is its minimum; θ goes on through a round."""

    theta: Tensor
    weight: float
    """λ"""
    steps: int
    """R"""
    eta_p: float

    def at(self, w_k: Tensor, gradient: GradientAt, step: int) -> Tensor:
        for _ in range(self.steps):
            away = self.theta - w_k
            axpy(self.theta, -self.eta_p, axpy(gradient(away), self.weight, away))
        return (w_k - self.theta).mul_(self.weight)

    def operations(self) -> int:
        return 3 * self.steps + 2

    def gradients(self) -> int:
        return self.steps
