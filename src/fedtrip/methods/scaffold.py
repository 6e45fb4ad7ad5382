"""SCAFFOLD (Karimireddy et al., 2020): control variates correct the drift of local steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedtrip.methods._control_variates import ControlVariates
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class Scaffold(ControlVariates):
    """step g − c_k + c; c_k⁺ = ∇F_k(w) (I) or c_k − c + (w − w_k)/(Kη) (II); server c ← c + (1/N)Σ(c_k⁺ − c_k)

    Beside it the server moves w ← w + η_g·(uniform mean of w_k − w). Option I costs n(FP+BP) more, for the gradient on
    all local data; that sum is the FedTrip paper's row. Option II is for plain SGD: with momentum above 0 it
    overestimates the gradient, because (w − w_k)/(Kη) is then more than a mean of gradients.
    """

    title = "control variates of server and clients correct the drift; plain SGD"
    group = "paper"
    formula = r"""
    step: g - c_k + c
    option I: c_k^{+} = \nabla F_k(w)
    option II: c_k^{+} = c_k - c + (w - w_k)/(K\eta)
    server: w \leftarrow w + \eta_g\,(\bar w - w), \quad c \leftarrow c + \frac{1}{N} \sum_{k \in S} (c_k^{+} - c_k)
    """
    server_operations = 3
    ranges: ClassVar[Ranges] = {"eta_g": Range(0.3, 3.0, "log")}

    option: Literal["I", "II"] = "II"
    """how a client renews c_k: I, the gradient on all its data; II, from the way it went"""
    eta_g: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """η_g, the server's learning rate"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        c_k = self.c_k(received, memory)
        gradient = local.gradient(received) if self.option == "I" else None
        trained = local.train(received, Affine(a=0.0, c=received["c"] - c_k))
        renewed = gradient if gradient is not None else self.next_c_k(c_k, received, trained["w"], local)
        return Reply(upload={**trained, "delta_c": renewed - c_k}, keep={"c_k": renewed})

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        w = server.w.double()
        w = w + self.eta_g * (uploads.mean("w") - w)
        return server.updated(w=w, c=self.next_c(server, uploads))

    def attaching(self, cost: CostSymbols) -> Attaching:
        corrections = 2 * (cost.K + 1) * cost.w
        if self.option == "II":
            return Attaching(corrections, "2(K+1)|w|", "2|w|", from_paper=False)
        full_gradient = cost.n * (cost.FP + cost.BP)
        return Attaching(corrections + full_gradient, "2(K+1)|w| + n(FP+BP)", "2|w|", from_paper=True)
