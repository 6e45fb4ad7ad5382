"""FedAvg (McMahan et al., 2017): train locally, average."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Method, Reply, Vectors


@dataclass(frozen=True)
class FedAvg(Method):
    """step g; server w ← Σ (n_k / Σn) w_k"""

    title = "federated averaging: the baseline of every comparison"

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:  # noqa: ARG002
        return Reply(upload=local.train(received))

    def attaching(self, cost: CostSymbols) -> Attaching:  # noqa: ARG002
        return Attaching(0.0, "0", "0", from_paper=True)
