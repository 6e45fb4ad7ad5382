"""MOON (Li, He and Song, 2021): model-contrastive learning on representations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedtrip.methods.interface import Attaching, Batch, CostSymbols, Local, Memory, Method, Reply
from fedtrip.vectors import Vectors

DEAD_EPS = 1e-4
"""Floor of a representation's norm: the cosine of a dead, all-zero representation is 0, with a bounded gradient."""


@dataclass(frozen=True)
class Moon(Method):
    """loss CE + μ·ℓ, ℓ = −log[e^{cos(z, z_glob)/τ} / (e^{cos(z, z_glob)/τ} + e^{cos(z, z_hist)/τ})]"""

    title = "contrast of representations: like the global model's, unlike the historical one's"
    needs_representation = True

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """μ, weight of the contrastive loss"""
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    """τ, its temperature"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        z_glob = local.representations(received)
        z_hist = z_glob if memory.is_new else local.representations(memory.vectors)  # a newcomer: ℓ = log 2

        def contrast(batch: Batch) -> Tensor:
            assert batch.representation is not None
            return self.mu * contrastive_loss(batch.representation, z_glob[batch.rows], z_hist[batch.rows], self.tau)

        trained = local.train(received, extra_loss=contrast if self.mu > 0 else None)
        return Reply(upload=trained, keep=trained)

    def attaching(self, cost: CostSymbols) -> Attaching:
        p = 1  # historical models used
        return Attaching(cost.K * cost.M * (1 + p) * cost.FP, "K·M·(1+p)FP", "0", from_paper=True)


def contrastive_loss(z: Tensor, z_glob: Tensor, z_hist: Tensor, tau: float) -> Tensor:
    """ℓ, the mean over the batch; written as softplus((cos(z, z_hist) − cos(z, z_glob))/τ), which is the same."""
    like = functional.cosine_similarity(z, z_glob, dim=1, eps=DEAD_EPS)
    unlike = functional.cosine_similarity(z, z_hist, dim=1, eps=DEAD_EPS)
    return functional.softplus((unlike - like) / tau).mean()
