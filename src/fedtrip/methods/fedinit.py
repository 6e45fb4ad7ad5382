"""FedInit (Sun et al., 2023): a client starts away from its own last model, beyond the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from fedtrip.methods._ranges import Range, Ranges
from fedtrip.methods.interface import Attaching, CostSymbols, Local, Memory, Method, Reply, Server
from fedtrip.vectors import Vectors


@dataclass(frozen=True)
class FedInit(Method):
    """start w + β(w − w_last), step g; server w ← mean of w_k

    w_last is the client's own model of its last round, which it keeps; the mean is uniform. A newcomer has none: its
    w_last is the initial model of the federation, as in the official code, or w, so that it starts there.

    Departs from the official code: that averages how far the clients went, w ← w + mean of (w_k − start_k), which is
    the mean of the w_k less β·mean of (w − w_last); here it is the paper's mean of models. The option `average` does
    the other: a client then sends w + (w_k − start_k) in place of w_k. Nothing more travels in either.
    """

    title = "clients start beyond the global model, away from their own last one"
    group = "steps"
    formula = r"""
    start: w_k = w + \beta\,(w - w_{\text{last}})
    step: g
    then: w_{\text{last}} \leftarrow w_k
    server: w \leftarrow \bar w
    """
    ranges: ClassVar[Ranges] = {"beta": Range(0.01, 1.0, "log")}
    weighting = "uniform"

    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """β, how far beyond"""
    newcomer: Literal["initial", "global"] = "initial"
    """the last model of a client that never took part: the federation's initial one, or the global one of the round"""
    average: Literal["models", "updates"] = "models"
    """what the server averages: the clients' models, or how far each went from its start"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w = received["w"]
        w_last = self._newcomers(w, local) if memory.is_new else memory["w_last"]
        beyond = (w - w_last).mul_(self.beta)
        trained = local.train({**received, "w": w + beyond})
        upload = trained if self.average == "models" else {**trained, "w": trained["w"] - beyond}
        return Reply(upload=upload, keep={"w_last": trained["w"]})

    def _newcomers(self, w: Tensor, local: Local) -> Tensor:
        """w_last of a client that never took part."""
        return local.initial if self.newcomer == "initial" else w

    def kept(self, server: Server) -> Vectors:
        return {"w_last": server.w}

    def attaching(self, cost: CostSymbols) -> Attaching:
        return Attaching(2 * cost.w, "2|w|", "0", from_paper=False)
