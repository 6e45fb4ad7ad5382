"""FedYogi (Reddi et al., 2021): Yogi on the server, over the averaged local updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedtrip.methods._bias_correction import BiasCorrection
from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods._server_optimized import ServerOptimized
from fedtrip.server_optimizers.yogi import Yogi


@dataclass(frozen=True)
class FedYogi(BiasCorrection, Yogi, ServerOptimized):
    """m ← β₁m + (1−β₁)Δ̄; v ← v − (1−β₂)Δ̄²·sign(v − Δ̄²); w ← w + η_g·m/(√v + τ); v starts at τ²; plain SGD

    Δ̄ is the mean of the clients' w_k − w, weighted by n_k; clients step g. Unlike Adam's, v moves by (1−β₂)Δ̄² at most,
    however large it is. To the bit FedAvg with plain SGD and the server optimizer `yogi`. The paper tunes η_g for every
    task, over powers of ten: so should you.

    Departs from the official code: that has the Yogi of TensorFlow, which corrects the bias of m and v and starts v at
    another value. This is the paper's Algorithm 2; with the option `bias_correction` it corrects, and v starts at 0.
    """

    title = "Yogi on the server; clients train with plain SGD"
    group = "server"
    formula = r"""
    step: g
    server: m \leftarrow \beta_1 m + (1 - \beta_1)\,\bar\Delta
    and: v \leftarrow v - (1 - \beta_2)\,\bar\Delta^2\,\mathrm{sign}(v - \bar\Delta^2)
    then: w \leftarrow w + \eta_g\,\frac{m}{\sqrt v + \tau}
    start: m = 0, \quad v = \tau^2
    """
    server_operations = Yogi.operations
    ranges: ClassVar[Ranges] = {"lr": Range(0.001, 1.0, "log"), "tau": Range(1e-4, 0.1, "log")}
