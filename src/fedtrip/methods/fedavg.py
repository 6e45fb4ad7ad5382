"""FedAvg (McMahan et al., 2017): train locally, average."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.methods.interface import Attaching, CostSymbols, Method


@dataclass(frozen=True)
class FedAvg(Method):
    """step g; server w ← Σ (n_k / Σn) w_k

    What any other method does not say is done as here.
    """

    title = "federated averaging: the baseline of every comparison"
    group = "paper"
    formula = r"""
    step: g
    server: w \leftarrow \bar w = \sum_{k \in S} p_k\, w_k, \quad p_k = n_k / \sum_{j \in S} n_j
    """

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "0", from_paper=True)
