"""FedSpeed (Sun et al., 2023): sharpness-aware steps on FedDyn's dynamic regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import Sam
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Reply
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedSpeed(Dynamic):
    """step (1−γ)g + γ·∇f(w_k + e) + α(w_k − w + h_k), e = ρ·g/(‖g‖ + 1e-7), g = ∇f(w_k); h_k ← h_k + (w_k − w)

    Server H ← H + (1/N)Σ(w_k − w), w ← w̄ + H, w̄ the uniform mean of w_k; N counts all clients. The client keeps h_k, as
    FedDyn's λ_k = −α·h_k, and the server H, as h = −α·H: ρ = 0 is FedDyn. Nothing more travels than in FedAvg. Weight
    decay and the regulariser pull at w_k. The statistics of BatchNorm see each batch once, at w_k.

    Departs from the paper, as the official code does: there each client sends w_k + h_k and the server takes the mean
    of these, so that H is over the clients of the round, and e = ρ·g is not of length ρ. α is the paper's 1/λ.
    Departs from the official code: that has γ = 1 only, comes back to w_k by subtracting e, and cuts every step to the
    length 10, which the experiment's `clip` does if asked.
    """

    title = "sharpness-aware steps with FedDyn's regulariser; plain SGD"
    group = "steps"
    formula = r"""
    step: (1 - \gamma)\,g + \gamma\,\nabla f(w_k + e) + \alpha\,(w_k - w + h_k)
    with: e = \rho\,g/(\|g\| + 10^{-7}), \quad g = \nabla f(w_k)
    then: h_k \leftarrow h_k + (w_k - w)
    server: H \leftarrow H + \frac{1}{N} \sum_{k \in S} (w_k - w), \quad w \leftarrow \bar w + H
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.001, 1.0, "log"), "rho": Range(0.005, 0.5, "log")}

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the second gradient is taken"""
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """γ, its share in the step; the rest is the gradient at w_k"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, lambda_k = received["w"], self.lambda_k(received, memory)
        trained = local.train(received, direction=Sam(self.rho, self.pull(w, lambda_k), self.gamma))
        return Reply(upload=trained, keep={"lambda_k": self.next_lambda(lambda_k, w, trained["w"])})

    def attaching(self, cost: CostSymbols) -> Attaching:
        second, elementwise = cost.K * cost.M * (cost.FP + cost.BP), 7 if self.gamma == 1 else 9
        formula = f"K·M(FP+BP) + {elementwise}K|w|"
        return Attaching(second + elementwise * cost.K * cost.w, formula, "0", from_paper=False)
