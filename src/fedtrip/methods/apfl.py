"""APFL (Deng, Kamani and Mahdavi, 2020): each client mixes a model of its own with the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedtrip.methods.interface import Attaching, CostSymbols, GradientAt, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors, axpy, dot


@dataclass(frozen=True)
class Apfl(Method):
    """FedAvg's w_k, and beside it v_k ← v_k − ηα·g(u), u = αv_k + (1−α)w_k; the client's own model is αv_k + (1−α)w

    Both take their steps on the same batches. A client keeps v_k and its α; a newcomer's v_k is the model that it
    received. If α is adaptive, the first step of a round changes it: α ← α − η⟨v_k − w_k, g(u)⟩, cut to [0, 1].

    The global model is FedAvg's with plain SGD. v_k takes plain steps: the experiment's weight decay and momentum are
    those of w_k alone. The own model's statistics of BatchNorm are the global model's.

    Departs from the official code: that mixes the outputs of two models instead of their parameters, adds 0.02α to the
    slope of α, and weighs the gradients by α and 1−α a second time. Here it is as in the paper, which does not say
    where a newcomer's v_k starts when others have gone on.
    """

    title = "FedAvg, and each client's own mixture of the global model and one of its own; plain SGD"
    group = "personal"
    formula = r"""
    step: g(w_k)
    beside: v_k \leftarrow v_k - \eta\,\alpha\,g(u), \quad u = \alpha\,v_k + (1 - \alpha)\,w_k
    adaptive: \alpha \leftarrow \alpha - \eta\,\langle v_k - w_k,\, g(u) \rangle
    server: w \leftarrow \bar w
    own: \alpha\,v_k + (1 - \alpha)\,w
    """
    momentum = 0.0
    optimizers = ("sgd",)  # v_k takes steps of plain SGD beside those of w_k

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    """α, the share of the client's own model in the mixture; where it is adaptive, its first value"""
    adaptive: bool = False
    """whether each client learns its α"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        v, alpha = (received["w"], self.alpha) if memory.is_new else (memory["v"], float(memory["alpha"]))
        mixture = Mixture(v.clone(), alpha, local.lr, self.adaptive)
        trained = local.train(received, direction=mixture)
        return Reply(upload=trained, keep={"v": mixture.v, "alpha": torch.tensor([mixture.alpha])})

    def personal_model(self, model: Vectors, memory: Memory) -> Vectors:
        if memory.is_new:
            return model
        alpha = float(memory["alpha"])
        return {**model, "w": alpha * memory["v"] + (1 - alpha) * model["w"]}

    def kept(self, server: Server) -> Vectors:
        return {"v": server.w, "alpha": torch.zeros(1)}

    def attaching(self, cost: CostSymbols) -> Attaching:
        training = cost.K * cost.M * (cost.FP + cost.BP)
        return Attaching(training + 4 * cost.K * cost.w, "K·M(FP+BP) + 4K|w|", "0", from_paper=False)


@dataclass
class Mixture:
    """The gradient at w_k as it is; v_k takes its own step by the way, and α the first one of a round."""

    v: Tensor
    alpha: float
    lr: float
    """η"""
    adaptive: bool

    def at(self, w_k: Tensor, gradient: GradientAt, step: int) -> Tensor:
        apart, slope = self.v - w_k, gradient()
        mixed = gradient(self.alpha * apart)
        axpy(self.v, -self.lr * self.alpha, mixed)
        if self.adaptive and step == 0:
            self.alpha = min(max(self.alpha - self.lr * dot(apart, mixed), 0.0), 1.0)
        return slope

    def operations(self) -> int:
        return 4

    def gradients(self) -> int:
        return 2
