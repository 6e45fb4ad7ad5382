"""FedDC (Gao et al., 2022): each client keeps how far it drifted, and its model and gradients are corrected by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedtrip.methods._control_variates import ControlVariates
from fedtrip.methods._dynamic import Dynamic
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedDc(ControlVariates, Dynamic):
    """step g + α(w_k − w + h_k) + (c − c_k); h_k ← h_k + Δ_k; server H ← H + (1/N)ΣΔ_k, w ← w̄ + H; c, c_k: SCAFFOLD's

    Δ_k = w_k − w, w̄ the uniform mean over the round's clients, N all clients; c_k⁺ = c_k − c + (w − w_k)/(Kη) with K
    and η of this client's round, c ← c + (1/N)Σ(c_k⁺ − c_k). It is FedDyn with SCAFFOLD's control variates: −αh_k is
    FedDyn's λ_k and −αH its h, and so they are kept. Invariants: H and c are the means of h_k and c_k over all N.
    Down: w, c. Up: w_k, c_k⁺ − c_k. Kept: λ_k, c_k.

    Departs from the paper: its server averages w_k + h_k over the round's clients; the official code, and this, take
    the mean of w_k over them and that of h_k over all N. Departs from the official code: that takes Kη from the mean
    number of samples and the rate before its decay, and divides α and c by N·n_k/Σn, which is 1 for equal clients.
    """

    title = "FedDyn's pull by the drift that a client keeps, with SCAFFOLD's control variates; plain SGD"
    group = "steps"
    formula = r"""
    step: g + \alpha\,(w_k - w + h_k) + (c - c_k)
    then: h_k \leftarrow h_k + \Delta_k, \quad c_k^{+} = c_k - c + (w - w_k)/(K\eta)
    server: H \leftarrow H + \frac{1}{N} \sum_{k \in S} \Delta_k, \quad w \leftarrow \bar w + H, \quad
      c \leftarrow c + \frac{1}{N} \sum_{k \in S} (c_k^{+} - c_k)
    """
    ranges: ClassVar[Ranges] = {"alpha": Range(0.001, 1.0, "log")}
    server_operations = 4
    totals = ("w", "delta_c")

    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    """α, weight of the pull (the official code: 0.1 on MNIST, 0.01 on CIFAR)"""

    @classmethod
    def defaults_for(cls, model: str, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"alpha": 0.01} if dataset.startswith("cifar") else {}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, c, c_k, lambda_k = received["w"], received["c"], self.c_k(received, memory), self.lambda_k(received, memory)
        trained = local.train(received, self.pull(w, lambda_k - (c - c_k)))  # −(λ_k − (c − c_k)) + α(w_k − w)
        renewed = self.next_c_k(c_k, received, trained["w"], local)
        keep = {"lambda_k": self.next_lambda(lambda_k, w, trained["w"]), "c_k": renewed}
        return Reply(upload={**trained, "delta_c": renewed - c_k}, keep=keep)

    def kept(self, server: Server) -> Vectors:
        return {"lambda_k": server.w, "c_k": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        return super().aggregate(server, uploads).updated(c=self.next_c(server, uploads))

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching((6 * cost.K + 2) * cost.w, "2(K+1)|w| + 4K|w|", "2|w|", from_paper=False)
