"""Ditto (Li et al., 2021): beside FedAvg, each client trains a model of its own near the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Ditto(Method):
    """FedAvg, and v_k by as many steps g(v_k) + λ(v_k − w), w as received; v_k is the client's own model

    The client keeps v_k whole, with its own statistics of BatchNorm; a newcomer's is the model that it received. The
    global model is FedAvg's for any λ.

    Departs from the official code: that takes both steps on the same batches, averages uniformly clients that are drawn
    by their samples, and starts every v_k at w⁰. Here v_k goes through the samples in an order of its own, and the mean
    is weighted by n_k.
    """

    title = "FedAvg, and beside it a model of each client's own that is pulled towards the global one"
    group = "personal"
    formula = r"""
    step: g(w_k)
    own: v_k \leftarrow v_k - \eta\,[g(v_k) + \lambda\,(v_k - w)]
    server: w \leftarrow \bar w
    """
    trainings = 2

    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """λ, how much v_k is pulled towards the global model"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        own = received if memory.is_new else memory.vectors
        trained = local.train(received)
        pull = Affine(a=self.lam, c=-self.lam * received["w"])
        return Reply(upload=trained, keep=local.train(own, pull, order="ditto"))

    def personal_model(self, model: Vectors, memory: Memory) -> Vectors:
        return model if memory.is_new else memory.vectors

    def kept(self, server: Server) -> Vectors:
        return server.model

    def attaching(self, cost: CostSymbols) -> Attaching:
        training = cost.K * cost.M * (cost.FP + cost.BP)
        return Attaching(training + 2 * cost.K * cost.w, "K·M(FP+BP) + 2K|w|", "0", from_paper=False)
