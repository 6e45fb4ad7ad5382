"""FedAvgM (Hsu et al., 2019): heavy-ball momentum on the server, over the averaged local updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedtrip.methods._ranges import Choices, Range, Ranges
from fedtrip.methods._server_optimized import ServerOptimized
from fedtrip.server_optimizers.momentum import Momentum


@dataclass(frozen=True)
class FedAvgM(Momentum, ServerOptimized):
    """step g, plain SGD; server u ← βu + (w − w̄), w ← w − η_g·u with w̄ the mean of the uploads

    The new difference has the weight 1, not 1 − β: where all rounds agree, a step grows to 1/(1 − β) times the mean's.
    To the bit FedAvg with plain SGD and the server optimizer `momentum`; to rounding SlowMo, while η is constant.
    """

    title = "FedAvg with momentum on the server; clients train with plain SGD"
    group = "server"
    formula = r"""
    step: g
    server: u \leftarrow \beta u + (w - \bar w), \quad w \leftarrow w - \eta_g\,u
    """
    server_operations = Momentum.operations
    ranges: ClassVar[Ranges] = {"beta": Choices(0.7, 0.9, 0.97, 0.99), "lr": Range(0.1, 2.0, "log")}
