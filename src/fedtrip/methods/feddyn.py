"""FedDyn (Acar et al., 2021): dynamic regularisation aligns the local optima with the global one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Reply
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedDyn(Dynamic):
    """step g − λ_k + α(w_k − w); λ_k ← λ_k − α(w_k − w); server h ← h − (α/N)Σ(w_k − w), w ← mean − h/α

    N counts all clients, S those of the round. Invariant: h = (1/N) Σ_k λ_k. The means are uniform.
    """

    title = "dynamic regularisation with a gradient kept by each client; plain SGD"
    group = "paper"
    formula = r"""
    step: g - \lambda_k + \alpha\,(w_k - w)
    then: \lambda_k \leftarrow \lambda_k - \alpha\,(w_k - w)
    server: h \leftarrow h - \frac{\alpha}{N} \sum_{k \in S} (w_k - w), \quad w \leftarrow \bar w - h/\alpha
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.001, 1.0, "log")}

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    """α, weight of the regulariser (the paper: 1 on MNIST)"""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"alpha": 1.0} if dataset == "mnist" else {}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, lambda_k = received["w"], self.lambda_k(received, memory)
        trained = local.train(received, self.pull(w, lambda_k))
        return Reply(upload=trained, keep={"lambda_k": self.next_lambda(lambda_k, w, trained["w"])})

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(4 * cost.K * cost.w, "4K|w|", "0", from_paper=True)
