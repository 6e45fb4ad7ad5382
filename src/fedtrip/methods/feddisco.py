"""FedDisco (Ye et al., 2023): clients whose labels are far from evenly distributed count less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedtrip import fixed_math
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Method, Reply, Server, Upload
from fedtrip.vectors import Vectors, total


@dataclass(frozen=True)
class FedDisco(Method):
    """step g; server w ← Σp_k·w_k, p_k ∝ max(0, n_k/Σn − a·d_k + b), d_k = KL(labels of k ‖ uniform over C)/Σ_S KL

    d_k is how far the client's distribution of labels is from the uniform one. Only KL is scaled to a sum of 1 over the
    clients of the round, as in the official code; the other measures are taken as they are. If no weight is above 0,
    all clients count by n_k.

    Departs from the official code: there the server knows every client's label counts. Here each client sends the one
    number d_k, which discloses less, though still something about its labels.
    """

    title = "weights that tell clients with even labels from those with few classes"
    group = "server"
    formula = r"""
    step: g
    server: w \leftarrow \sum_k p_k\,w_k, \quad p_k \propto \max(0,\; n_k/\textstyle\sum n - a\,d_k + b)
    with: d_k = \frac{\mathrm{KL}(\text{labels of } k \,\|\, \text{uniform})}
        {\sum_{j \in S} \mathrm{KL}(\text{labels of } j \,\|\, \text{uniform})}
    """
    needs_classes = True
    ranges: ClassVar[Ranges] = {"a": Range(0.0, 1.0), "b": Range(0.0, 0.5)}

    a: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5
    """a, how much the distance of the labels takes off a client's weight"""
    b: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """b, what every client's weight gets more"""
    measure: Literal["kl", "cosine", "l1", "l2"] = "kl"
    """the distance of two distributions: Kullback-Leibler, 1 − cosine, or a norm of the difference"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        d = torch.tensor([self.distance(local.class_counts)])
        return Reply(upload={**local.train(received), "d": d})

    def distance(self, counts: Tensor) -> float:
        """d_k of a client with so many samples of each class, not scaled yet."""
        q, classes = counts.double() / int(counts.sum()), len(counts)
        if self.measure == "kl":
            held = q[q > 0]
            return total(held * torch.from_numpy(fixed_math.log((held * classes).numpy())))
        if self.measure == "cosine":
            return 1 - 1 / math.sqrt(classes * total(q * q))
        off = q - 1 / classes
        return total(off.abs()) if self.measure == "l1" else math.sqrt(total(off * off))

    def kept(self, server: Server) -> Vectors:
        return {}

    def expected(self, server: Server) -> Vectors:
        return {**server.model, "d": torch.zeros(1)}

    def weights(self, uploads: Sequence[Upload]) -> list[float]:
        n = super().weights(uploads)
        d = [max(0.0, float(upload["d"])) for upload in uploads]  # no distance is negative, whatever a client sends
        samples, apart = sum(n), sum(d)
        if self.measure == "kl" and apart > 0:
            d = [d_k / apart for d_k in d]
        p = [max(0.0, n_k + samples * (self.b - self.a * d_k)) for n_k, d_k in zip(n, d, strict=True)]  # times Σn
        return p if sum(p) > 0 else n

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "0", from_paper=False)
