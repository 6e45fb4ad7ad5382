"""FedGKD (Yao et al., 2021): the recent global models teach the local one by distillation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
    Local,
    Memory,
    Method,
    Reply,
    Server,
    Uploads,
)
from fedtrip.vectors import Vectors, add_weighted, softmax_rows


@dataclass(frozen=True)
class FedGkd(Method):
    """loss CE + (γ/2)T²·KL(teacher ‖ student), the teacher the mean of the last M global models; off in round 1

    The teacher is frozen and in evaluation mode; its buffers are those of the received model. With M = 1 it is w itself
    and is not sent twice.

    Departs from the paper, or fills in what that leaves open: the buffer of global models begins with the aggregate of
    round 1, without the initial model, which has nothing to teach; until there are M, the teacher is the mean of those
    there are. That distillation is off in round 1 follows from it.
    """

    title = "distillation from an average of the recent global models"
    group = "paper"
    formula = r"""
    loss: \text{CE} + \frac{\gamma}{2}\,T^2\,\mathrm{KL}(\text{teacher} \,\|\, \text{student})
    teacher: \text{the mean of the last } M \text{ global models}
    server: w \leftarrow \bar w
    """
    server_operations = 2
    needs_classes = True
    ranges: ClassVar[Ranges] = {
        "gamma": Range(0.02, 2.0, "log"),
        "temperature": Choices(1.0, 2.0, 4.0),
        "models": Choices(1, 3, 5),
    }

    gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.2
    """γ, weight of the distillation loss"""
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """T, its temperature"""
    models: Annotated[int, Field(ge=1, le=1000)] = 5
    """M, global models in the teacher; with M > 1 the teacher is sent too"""

    def start(self, w: Tensor) -> Vectors:
        return {"recent": torch.zeros(self.models, w.numel()), "seen": torch.zeros(1, dtype=torch.int64)}

    def broadcast(self, server: Server) -> Vectors:
        filled = min(int(server.state["seen"]), self.models)
        if self.models == 1 or filled == 0:
            return server.model
        teacher = torch.zeros_like(server.w, dtype=torch.float64)
        for w in server.state["recent"][:filled]:
            add_weighted(teacher, w, 1.0)
        return {**server.model, "teacher": teacher.div_(filled)}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        model = {name: vector for name, vector in received.items() if name != "teacher"}
        if local.round == 1 or self.gamma == 0:
            return Reply(upload=local.train(model))
        taught = local.logits({**model, "w": received.get("teacher", model["w"])})
        return Reply(upload=local.train(model, extra_loss=Distillation(taught, self.gamma, self.temperature)))

    def kept(self, server: Server) -> Vectors:
        return {}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        w = uploads.mean("w").to(torch.float32)
        recent, seen = server.state["recent"].clone(), server.state["seen"]
        recent[int(seen) % self.models] = w
        return server.updated(w=w, recent=recent, seen=seen + 1)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(cost.K * cost.M * cost.FP, "K·M·FP", "|w|" if self.models > 1 else "0", from_paper=False)


@dataclass(frozen=True)
class Distillation:
    """(γ/2)T²·KL(teacher ‖ student), the mean over the batch: FedGKD's extra loss."""

    taught: Tensor
    """the teacher's logits of every local sample"""
    gamma: float
    temperature: float

    def __call__(self, batch: Batch) -> Tensor:
        return self.gamma / 2 * distillation_loss(self.taught[batch.rows], batch.logits, self.temperature)

    def gradient(self, batch: Batch) -> BatchGradient:
        """(γ/2)T·(softmax(student/T) − softmax(teacher/T))/n for a batch of n samples."""
        apart = softmax_rows(batch.logits, self.temperature) - self._goal[batch.rows]
        slope = self.gamma / 2 * self.temperature / len(batch.rows) * apart
        return BatchGradient(logits=slope.to(torch.float32))

    @cached_property
    def _goal(self) -> Tensor:
        return softmax_rows(self.taught, self.temperature)


def distillation_loss(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """T² · KL(softmax(teacher/T) ‖ softmax(student/T)), the mean over the batch."""
    goal = functional.log_softmax(teacher / temperature, dim=1)
    log_probabilities = functional.log_softmax(student / temperature, dim=1)
    return temperature**2 * functional.kl_div(log_probabilities, goal, reduction="batchmean", log_target=True)
