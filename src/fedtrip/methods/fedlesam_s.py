"""FedLESAM-S (Fan et al., 2024): FedLESAM's gradients with SCAFFOLD's control variates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedtrip.methods._control_variates import ControlVariates
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._sharpness import train_beside
from fedtrip.methods.interface import Affine, Attaching, CostSymbols, Local, Memory, Reply, Server, Uploads
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedLesamS(ControlVariates):
    """step ∇f(w_k + e) + c − c_k, e = ρ(w_prev − w)/(‖w_prev − w‖ + 1e-7); c_k⁺ = c_k − c + (w − w_k)/(Kη)

    Server c ← c + (1/N)Σ(c_k⁺ − c_k), w ← uniform mean of w_k. w_prev is the global model that the client received the
    last time it took part; a newcomer has e = 0. ρ = 0 is SCAFFOLD (option II, η_g = 1). Down: w, c. Up: w_k,
    c_k⁺ − c_k. Kept: c_k, w_prev. Weight decay pulls at w_k; the statistics of BatchNorm see each batch at w_k + e.

    Departs from the official code, beside what `fedlesam` says of it: that multiplies c − c_k by the weight of another
    method's proximal term, 0.1, and takes K of one client for all of them.
    """

    title = "FedLESAM's gradients with SCAFFOLD's control variates; plain SGD"
    group = "steps"
    formula = r"""
    step: \nabla f(w_k + e) + c - c_k
    with: e = \rho\,(w_{\text{prev}} - w)/(\|w_{\text{prev}} - w\| + 10^{-7})
    then: c_k^{+} = c_k - c + (w - w_k)/(K\eta), \quad w_{\text{prev}} \leftarrow w
    server: w \leftarrow \bar w, \quad c \leftarrow c + \frac{1}{N} \sum_{k \in S} (c_k^{+} - c_k)
    """
    ranges: ClassVar[Ranges] = {"rho": Range(0.005, 0.5, "log")}
    server_operations = 2

    rho: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """ρ, how far uphill the gradient is taken"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        c_k = self.c_k(received, memory)
        trained = train_beside(self.rho, received, memory, local, Affine(a=0.0, c=received["c"] - c_k))
        renewed = self.next_c_k(c_k, received, trained["w"], local)
        return Reply(upload={**trained, "delta_c": renewed - c_k}, keep={"c_k": renewed, "w_prev": received["w"]})

    def kept(self, server: Server) -> Vectors:
        return {**super().kept(server), "w_prev": server.w}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        return server.updated(w=uploads.mean("w"), c=self.next_c(server, uploads))

    def attaching(self, cost: CostSymbols) -> Attaching:
        flops = 2 * (cost.K + 1) * cost.w + (cost.K + 3) * cost.w
        return Attaching(flops, "2(K+1)|w| + (K+3)|w|", "2|w|", from_paper=False)
