"""MOON (Li, He and Song, 2021): model-contrastive learning on representations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fedtrip.methods._ranges import Choices, Ranges
from fedtrip.methods.interface import Attaching, Batch, BatchGradient, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors, row_dots, sigmoid, square_root

DEAD_EPS = 1e-4
"""Floor of a representation's norm: the cosine of a dead, all-zero representation is 0, with a bounded gradient."""


@dataclass(frozen=True)
class Moon(Method):
    """loss CE + μ·ℓ, ℓ = −log[e^{cos(z, z_glob)/τ} / (e^{cos(z, z_glob)/τ} + e^{cos(z, z_hist)/τ})]

    z is the representation that goes into the model's last layer;
    `docs/own-model-and-data.md#the-representation-for-moon` says which one that is. z_glob and z_hist are those of the
    received and of the client's last model, both frozen and in evaluation mode. The client keeps its trained model,
    with its buffers. A client without history takes the global model for it: ℓ is then the constant log 2. p in the
    cost, the historical models used, is 1.

    Departs from the paper: there a projection head of two layers is added to the network and z is its output. Here z
    goes into the last layer of the model as it is, because all methods are to train the same model, with the |w| and
    the costs of the FedTrip paper. What a client without history does is our choice.
    """

    title = "contrast of representations: like the global model's, unlike the historical one's"
    group = "paper"
    formula = r"""
    loss: \text{CE} + \mu\,\ell
    with: \ell = -\log \frac{e^{\cos(z,\, z_{\text{glob}})/\tau}}
        {e^{\cos(z,\, z_{\text{glob}})/\tau} + e^{\cos(z,\, z_{\text{hist}})/\tau}}
    server: w \leftarrow \bar w
    """
    needs_representation = True
    ranges: ClassVar[Ranges] = {"mu": Choices(0.1, 1.0, 5.0, 10.0), "tau": Choices(0.1, 0.5, 1.0)}

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """μ, weight of the contrastive loss"""
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    """τ, its temperature"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        z_glob = local.representations(received)
        z_hist = z_glob if memory.is_new else local.representations(memory.vectors)  # a newcomer: ℓ = log 2
        contrast = Contrast(z_glob, z_hist, self.mu, self.tau) if self.mu > 0 else None
        trained = local.train(received, extra_loss=contrast)
        return Reply(upload=trained, keep=trained)

    def kept(self, server: Server) -> Vectors:
        return server.model

    def attaching(self, cost: CostSymbols) -> Attaching:
        p = 1  # historical models used
        return Attaching(cost.K * cost.M * (1 + p) * cost.FP, "K·M·(1+p)FP", "0", from_paper=True)


@dataclass(frozen=True)
class Contrast:
    """μ·ℓ, the mean over the batch: MOON's extra loss."""

    z_glob: Tensor
    """the global model's representation of every local sample"""
    z_hist: Tensor
    """the historical one's"""
    mu: float
    tau: float

    def __call__(self, batch: Batch) -> Tensor:
        return self.mu * contrastive_loss(*self._representations(batch), self.tau)

    def gradient(self, batch: Batch) -> BatchGradient:
        """μ·∂ℓ/∂z."""
        assert batch.representation is not None
        slope = self.mu * contrastive_slope(batch.representation, self._apart.index_select(0, batch.rows), self.tau)
        return BatchGradient(representation=slope.to(torch.float32))

    @cached_property
    def _apart(self) -> Tensor:
        """z_hist/‖z_hist‖ − z_glob/‖z_glob‖ of every local sample: all that the gradient knows of the two."""
        return (_direction(self.z_hist) - _direction(self.z_glob)).to(torch.float32)

    def _representations(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        assert batch.representation is not None
        return batch.representation, self.z_glob[batch.rows], self.z_hist[batch.rows]


def contrastive_loss(z: Tensor, z_glob: Tensor, z_hist: Tensor, tau: float) -> Tensor:
    """ℓ, the mean over the batch; written as softplus((cos(z, z_hist) − cos(z, z_glob))/τ), which is the same."""
    like = functional.cosine_similarity(z, z_glob, dim=1, eps=DEAD_EPS)
    unlike = functional.cosine_similarity(z, z_hist, dim=1, eps=DEAD_EPS)
    return functional.softplus((unlike - like) / tau).mean()


def contrastive_slope(z: Tensor, apart: Tensor, tau: float) -> Tensor:
    """∂ℓ/∂z in float64: σ(s)·∂s/∂z divided by the n samples of the batch, s = (cos(z, z_hist) − cos(z, z_glob))/τ.

    With d = `apart`, the difference of the two directions, τs = z·d/‖z‖ and ∂(τs)/∂z = (d − τs·z/‖z‖)/‖z‖, where a norm
    that divides is at least the floor; the direction z/‖z‖ is that of z, and zero for z = 0.
    """
    length = square_root(row_dots(z, z))
    size = length.clamp(min=DEAD_EPS)
    nearer = row_dots(z, apart) / size
    wrong = sigmoid(nearer / tau) / (tau * len(z)) / size
    along = torch.where(length > 0, wrong * nearer / length, 0.0)
    return wrong[:, None] * apart - along[:, None] * z


def _direction(z: Tensor) -> Tensor:
    """z/‖z‖ of each row in float64, the norm at least the floor."""
    return z / square_root(row_dots(z, z)).clamp(min=DEAD_EPS)[:, None]
