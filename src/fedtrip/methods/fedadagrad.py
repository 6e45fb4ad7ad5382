"""FedAdagrad (Reddi et al., 2021): Adagrad on the server, over the averaged local updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._server_optimized import ServerOptimized
from fedtrip.server_optimizers.adagrad import Adagrad


@dataclass(frozen=True)
class FedAdagrad(Adagrad, ServerOptimized):
    """m ← β₁m + (1−β₁)Δ̄; v ← v + Δ̄²; w ← w + η_g·m/(√v + τ); v starts at τ², β₁ = 0; clients step g, plain SGD

    Δ̄ is the mean of the clients' w_k − w, weighted by n_k. To the bit FedAvg with plain SGD and the server optimizer
    `adagrad`. The paper tunes η_g for every task, over powers of ten: so should you.

    Departs from the official code: that has the Adagrad of Keras, without m and with a constant under the root. This is
    the paper's Algorithm 2.
    """

    title = "Adagrad on the server; clients train with plain SGD"
    group = "server"
    formula = r"""
    step: g
    server: m \leftarrow \beta_1 m + (1 - \beta_1)\,\bar\Delta
    and: v \leftarrow v + \bar\Delta^2
    then: w \leftarrow w + \eta_g\,\frac{m}{\sqrt v + \tau}
    start: m = 0, \quad v = \tau^2
    """
    server_operations = Adagrad.operations
    ranges: ClassVar[Ranges] = {"lr": Range(0.001, 1.0, "log"), "tau": Range(1e-4, 0.1, "log")}
