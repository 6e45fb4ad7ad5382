"""Faults of other implementations, each put into our own method by changing the one line that it is about.

The formulas are ours; no line of theirs is here. Where a fault needs a number that a client's tools do not have, such
as the momentum of the local steps, it is an option with the value of the audit's runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedtrip.methods._sharpness import TINY, Beside
from fedtrip.methods.fedadam import FedAdam
from fedtrip.methods.fedavgm import FedAvgM
from fedtrip.methods.feddyn import FedDyn
from fedtrip.methods.fedlesam import FedLesam
from fedtrip.methods.fednova import FedNova
from fedtrip.methods.interface import Affine, Local, Memory, Reply, Server, Uploads
from fedtrip.methods.scaffold import Scaffold
from fedtrip.randomness import stream, uniforms
from fedtrip.vectors import Vectors, axpy, norm, square_root


@dataclass(frozen=True)
class FedAvgMScaled(FedAvgM):
    """u ← βu + (1−β)(w − w̄)"""

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        u = self.beta * state["u"] + (1 - self.beta) * (w - proposed)
        return w - self.lr * u, {"u": u}


@dataclass(frozen=True)
class FedAdamOneLate(FedAdam):
    """the t-th step is corrected as if it were the one after it"""

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        stepped, after = super().__call__(w, proposed, {**state, "steps": state["steps"] + 1})
        return stepped, {**after, "steps": state["steps"] + 1}


@dataclass(frozen=True)
class FedAdamOfMomentum(FedAdam):
    """v from m² in place of Δ̄²; m/(1−β₁) and v/(1−β₂) in every round in place of the bias correction"""

    def __call__(self, w: Tensor, proposed: Tensor, state: Vectors) -> tuple[Tensor, Vectors]:
        m = self.beta1 * state["m"] + (1 - self.beta1) * (proposed - w)
        v = self.second_moment(state["v"], m * m)
        step = m / (1 - self.beta1) / (square_root(v / (1 - self.beta2)) + self.tau)
        return w + self.lr * step, {**state, "m": m, "v": v}


@dataclass(frozen=True)
class FedNovaMixed(FedNova):
    """τ_k from a recursion that is neither that of the momentum nor that of the pull"""

    beta: float = 0.9
    """the momentum of the local steps"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        reply = super().client(received, memory, local)
        counter = a = 0.0
        for _ in range(local.steps):
            counter = self.beta * counter + 1
            a = (a + counter) * (1 - local.lr * self.mu) + 1
        return Reply(upload={**reply.upload, "tau": torch.tensor([local.lr * a])})


@dataclass(frozen=True)
class FedNovaFloor(FedNova):
    """τ_k = η·⌊n_k/B⌋: no last batch, no epochs, no momentum"""

    batch: int = 20
    """B"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        steps = len(local.labels) // self.batch
        if steps == 0:
            raise ZeroDivisionError(f"a client of {len(local.labels)} samples has no whole batch of {self.batch}")
        reply = super().client(received, memory, local)
        return Reply(upload={**reply.upload, "tau": torch.tensor([local.lr * steps])})


@dataclass(frozen=True)
class ScaffoldSendsState(Scaffold):
    """(w − w_k)/E in place of (w − w_k)/(Kη), and c_k⁺ is sent in place of its change"""

    epochs: int = 1
    """E"""

    def next_c_k(self, c_k: Tensor, received: Vectors, w_k: Tensor, local: Local) -> Tensor:  # noqa: ARG002
        return c_k - received["c"] + (received["w"] - w_k) / self.epochs

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        reply = super().client(received, memory, local)
        return Reply(upload={**reply.upload, "delta_c": reply.keep["c_k"]}, keep=reply.keep)


@dataclass(frozen=True)
class ScaffoldSign(Scaffold):
    """step g + c_k − c"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        c_k = self.c_k(received, memory)
        trained = local.train(received, Affine(a=0.0, c=c_k - received["c"]))
        renewed = self.next_c_k(c_k, received, trained["w"], local)
        return Reply(upload={**trained, "delta_c": renewed - c_k}, keep={"c_k": renewed})


@dataclass(frozen=True)
class ScaffoldOverChosen(Scaffold):
    """c ← c + (1/|S|)Σ(c_k⁺ − c_k)"""

    def next_c(self, server: Server, uploads: Uploads) -> Tensor:
        return server.state["c"] + uploads.total("delta_c") / uploads.count


@dataclass(frozen=True)
class ScaffoldTimesChosen(Scaffold):
    """c ← c + (|S|/N)Σ(c_k⁺ − c_k)"""

    def next_c(self, server: Server, uploads: Uploads) -> Tensor:
        return server.state["c"] + uploads.total("delta_c") * (uploads.count / server.clients)


@dataclass(frozen=True)
class ScaffoldRandomStart(ScaffoldOverChosen):
    """c and every c_k start at the weights of a random network, and c ← c + (1/|S|)Σ(c_k⁺ − c_k)"""

    def start(self, w: Tensor) -> Vectors:
        return {**super().start(w), "c": another_network(w).double()}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        if memory.is_new:
            memory = Memory({"c_k": another_network(local.initial)}, last_round=0)
        return super().client(received, memory, local)


def another_network(w: Tensor) -> Tensor:
    """Weights of the same distribution as these, which is symmetric: each with a sign of its own."""
    positive = torch.from_numpy(uniforms(stream(0, "audit signs"), len(w)) < 0.5)
    return torch.where(positive, w, -w)


@dataclass(frozen=True)
class FedDynUnsquared(FedDyn):
    """the gradient of (α/2)‖w_k − w‖ in place of α(w_k − w)"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        w, lambda_k = received["w"], self.lambda_k(received, memory)
        trained = local.train(received, PlainNorm(w, lambda_k, self.alpha))
        return Reply(upload=trained, keep={"lambda_k": self.next_lambda(lambda_k, w, trained["w"])})


@dataclass(frozen=True)
class PlainNorm:
    """−λ_k + (α/2)(w_k − w)/‖w_k − w‖, a pull of constant length."""

    w: Tensor
    lambda_k: Tensor
    alpha: float

    def add_to(self, h: Tensor, w_k: Tensor) -> None:
        h.sub_(self.lambda_k)
        away = w_k - self.w
        length = norm(away)
        if length > 0:
            axpy(h, self.alpha / 2 / length, away)

    def operations(self) -> int:
        return 4


@dataclass(frozen=True)
class FedDynSubtractsOnce(FedDyn):
    """h ← h − (α/N)(Σw_k − w)"""

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        moved = uploads.total("w") - server.w.double()
        h = server.state["h"] - (self.alpha / server.clients) * moved
        return server.updated(w=uploads.mean("w") - h / self.alpha, h=h)


@dataclass(frozen=True)
class FedDynWithoutGradient(FedDyn):
    """step g: the regulariser is in the loss, but not in its gradient"""

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:
        trained = local.train(received)
        lambda_k = self.next_lambda(self.lambda_k(received, memory), received["w"], trained["w"])
        return Reply(upload=trained, keep={"lambda_k": lambda_k})


@dataclass(frozen=True)
class FedDynWithoutQuadratic(FedDyn):
    """step g − λ_k − αw"""

    def pull(self, w: Tensor, lambda_k: Tensor) -> Affine:
        return Affine(a=0.0, c=super().pull(w, lambda_k).c)


@dataclass(frozen=True)
class FedLesamByNumber(FedLesam):
    """tensor i is shifted as a whole by −ρ·u_i/Σ|u_j|, u_i being the i-th number of the server's last step, for all"""

    def start(self, w: Tensor) -> Vectors:
        return {"before": w.double()}

    def broadcast(self, server: Server) -> Vectors:
        return {**server.model, "update": server.w - server.state["before"]}

    def client(self, received: Vectors, memory: Memory, local: Local) -> Reply:  # noqa: ARG002
        model = {name: vector for name, vector in received.items() if name != "update"}
        tensors = sorted((part.start, part.stop) for part in local.layout.parts.values() if part.vector == "w")
        numbers = [float(u) for u in received["update"][: len(tensors)]]
        shift, scale = torch.zeros_like(received["w"]), self.rho / (sum(map(abs, numbers)) + TINY)
        for (start, stop), u in zip(tensors, numbers, strict=True):
            shift[start:stop] = -scale * u
        return Reply(upload=local.train(model, direction=Beside(shift)))

    def kept(self, server: Server) -> Vectors:  # noqa: ARG002
        return {}

    def aggregate(self, server: Server, uploads: Uploads) -> Server:
        return server.updated(w=uploads.mean("w"), before=server.w.double())
