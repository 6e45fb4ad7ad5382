"""FedBN (Li et al., 2021): the layers that normalise stay with each client."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.layout import Layout
from fedtrip.methods.interface import Attaching, CostSymbols, Method, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedBn(Method):
    """step g; server w ← mean of w_k, but for the norm layers (affine and statistics), which stay with their client

    Norm layers are found by their type: BatchNorm, InstanceNorm, GroupNorm, LayerNorm and RMSNorm. A newcomer has the
    initial ones, and so has the global model: with BatchNorm its score says little, and what counts are the clients'
    own scores (`eval_clients`). A model without norm layers is trained as by FedAvg, which the run says.

    Departs from the official code: that selects by name what contains "bn", and so averages norm layers of another
    name, such as those in the shortcuts of a ResNet.
    """

    title = "norm layers stay with each client, all else is averaged"
    group = "personal"
    formula = r"""
    step: g
    server: w \leftarrow \bar w \text{, but for the norm layers}
    own: \text{the norm layers of } w_k
    """

    def stays(self, layout: Layout) -> frozenset[str]:
        return layout.norms

    def remark(self, layout: Layout) -> str | None:
        return None if layout.norms else "the model has no norm layers, so that fedbn is fedavg"

    def kept(self, server: Server) -> Vectors:
        return {}  # beside the norm layers, which are kept because they stay

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "−2|norm layers|", from_paper=False)
