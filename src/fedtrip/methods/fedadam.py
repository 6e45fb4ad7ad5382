"""FedAdam (Reddi et al., 2021): Adam on the server, over the averaged local updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedtrip.methods._bias_correction import BiasCorrection
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._server_optimized import ServerOptimized
from fedtrip.server_optimizers.adam import Adam


@dataclass(frozen=True)
class FedAdam(BiasCorrection, Adam, ServerOptimized):
    """m ← β₁m + (1−β₁)Δ̄; v ← β₂v + (1−β₂)Δ̄²; w ← w + η_g·m/(√v + τ); v starts at τ²; clients step g, plain SGD

    Δ̄ is the mean of the clients' w_k − w, weighted by n_k. To the bit FedAvg with plain SGD and the server optimizer
    `adam`. The paper tunes η_g for every task, over powers of ten: so should you.

    Departs from the official code: that has the Adam of Keras, which corrects the bias of m and v, starts v at 0, and
    has β₂ = 0.999 unless it is set. This is the paper's Algorithm 2; the option `bias_correction` does as the code.
    """

    title = "Adam on the server; clients train with plain SGD"
    group = "server"
    formula = r"""
    step: g
    server: m \leftarrow \beta_1 m + (1 - \beta_1)\,\bar\Delta
    and: v \leftarrow \beta_2 v + (1 - \beta_2)\,\bar\Delta^2
    then: w \leftarrow w + \eta_g\,\frac{m}{\sqrt v + \tau}
    start: m = 0, \quad v = \tau^2
    """
    server_operations = Adam.operations
    ranges: ClassVar[Ranges] = {"lr": Range(0.001, 1.0, "log"), "tau": Range(1e-4, 0.1, "log")}
