"""FedAvg (McMahan et al., 2017): train locally, average."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.methods.interface import Attaching, CostSymbols, Method


@dataclass(frozen=True)
class FedAvg(Method):
    """step g; server w ← Σ (n_k / Σn) w_k"""

    title = "federated averaging: the baseline of every comparison"

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "0", from_paper=True)
