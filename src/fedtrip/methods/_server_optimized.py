"""What FedAvgM, FedAdagrad, FedAdam and FedYogi share: FedAvg's clients, a server optimizer as the server's step."""

from __future__ import annotations

from dataclasses import dataclass

from fedtrip.methods.interface import Attaching, CostSymbols, Method, Server, Uploads
from fedtrip.server_optimizers.interface import ServerOptimizer


@dataclass(frozen=True)
class ServerOptimized(ServerOptimizer, Method):
    """Base of a method that is FedAvg with a server optimizer: `class FedX(X, ServerOptimized)` is both at once, so
    that the optimizer's options, state and step are the method's."""

    momentum = 0.0

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        averaged = super().aggregate(server, uploads).w  # float32, as a server optimizer beside a method gets it
        w, state = self(server.w.double(), averaged.double(), server.state)
        return server.updated(w=w, **state)

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(0.0, "0", "0", from_paper=False)  # its work is on the server
