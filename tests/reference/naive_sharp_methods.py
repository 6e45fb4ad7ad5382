"""The sharpness-aware methods, plain and slow: autograd's gradients at shifted copies of the module, in float64.

The dynamic regulariser is written in h_k and H, where the library has FedDyn's λ_k and h. A step's direction d becomes
an objective as d·w_k, whose gradient it is.
"""

import copy

import torch
from tests.reference.naive_methods import FedAvg, flat, set_flat
from torch.nn import functional


def gradient_at(local, x, y, offset=None, *, moves_statistics=False):
    """∇f(w_k + offset) of a batch; of the module itself only the statistics change, and only if they shall."""
    aside = copy.deepcopy(local)
    aside.zero_grad()
    if offset is not None:
        set_flat(aside, flat(local).detach() + offset)
    functional.cross_entropy(aside(x), y).backward()
    if moves_statistics:
        local.load_state_dict(dict(aside.named_buffers()), strict=False)
    return torch.cat([p.grad.reshape(-1) for p in aside.parameters() if p.requires_grad])


def of_length(rho, v):
    return rho * v / (torch.linalg.vector_norm(v) + 1e-7)


class Sharp(FedAvg):
    uniform, rho = True, 0.1

    def zero(self):
        return torch.zeros_like(self.initial)


class FedSam(Sharp):
    gamma = 1.0

    def sharp_gradient(self, local, x, y):
        g = gradient_at(local, x, y, moves_statistics=True)
        return (1 - self.gamma) * g + self.gamma * gradient_at(local, x, y, of_length(self.rho, g))

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        return self.sharp_gradient(local, x, y) @ flat(local)


class MoFedSam(FedSam):
    alpha, eta_g, decays_itself = 0.1, 1.0, True

    def begin(self):
        self.s = self.zero()

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.weight_decay, self.directions = setting.weight_decay, []

    def objective(self, t, k, local, server, x, y):
        w = flat(local)
        f = super().objective(t, k, local, server, x, y) + self.weight_decay / 2 * w.square().sum()
        return self.alpha * f + (1 - self.alpha) * self.s @ w

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.directions.append((flat(server) - flat(local)).detach() / (self.steps * self.lr))

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.s = sum(self.directions) / len(self.directions)
        return w + self.eta_g * (mean - w)


class WithDuals(Sharp):
    """α(w_k − w + h_k) beside the gradient; h_k ← h_k + Δ_k; H the mean of h_k over all clients; w ← w̄ + H."""

    alpha = 0.1

    def begin(self):
        self.h = {}

    def regulariser(self, k, local, server):
        shifted = flat(local) - flat(server).detach() + self.h.get(k, self.zero())
        return self.alpha / 2 * shifted.square().sum()

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.h[k] = self.h.get(k, self.zero()) + (flat(local) - flat(server)).detach()

    def update(self, w, mean, uploads):  # noqa: ARG002
        return mean + sum(self.h.values()) / self.clients


class FedSpeed(WithDuals, FedSam):
    def objective(self, t, k, local, server, x, y):
        return FedSam.objective(self, t, k, local, server, x, y) + self.regulariser(k, local, server)


class FedSmoo(WithDuals):
    def begin(self):
        super().begin()
        self.mu, self.s = {}, self.zero()

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.current, self.taken = {k: mu.clone() for k, mu in self.mu.items()}, []

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        g, mu = gradient_at(local, x, y, moves_statistics=True), self.current.get(k, self.zero())
        e = of_length(self.rho, g - mu - self.s)
        self.current[k] = mu + e - self.s
        return gradient_at(local, x, y, e) @ flat(local) + self.regulariser(k, local, server)

    def succeeded(self, t, k, local, server):
        super().succeeded(t, k, local, server)
        self.mu[k] = self.current[k]
        self.taken.append(self.mu[k])

    def update(self, w, mean, uploads):
        self.s = of_length(self.rho, sum(self.taken) / len(self.taken))
        return super().update(w, mean, uploads)


class FedLesam(Sharp):
    def begin(self):
        self.previous = {}

    def sharp_gradient(self, k, local, server, x, y):
        e = of_length(self.rho, self.previous[k] - flat(server).detach()) if k in self.previous else None
        return gradient_at(local, x, y, e, moves_statistics=True)

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        return self.sharp_gradient(k, local, server, x, y) @ flat(local)

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.previous[k] = flat(server).detach().clone()


class FedLesamS(FedLesam):
    def begin(self):
        super().begin()
        self.c_k, self.c = {}, self.zero()

    def objective(self, t, k, local, server, x, y):
        control = (self.c - self.c_k.get(k, self.zero())) @ flat(local)
        return super().objective(t, k, local, server, x, y) + control

    def succeeded(self, t, k, local, server):
        super().succeeded(t, k, local, server)
        way = (flat(server) - flat(local)).detach() / (self.steps * self.lr)
        self.c_k[k] = self.c_k.get(k, self.zero()) - self.c + way

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.c = sum(self.c_k.values()) / self.clients  # SCAFFOLD's invariant
        return mean


class FedLesamD(WithDuals, FedLesam):
    def begin(self):
        WithDuals.begin(self)
        FedLesam.begin(self)

    def objective(self, t, k, local, server, x, y):
        return FedLesam.objective(self, t, k, local, server, x, y) + self.regulariser(k, local, server)

    def succeeded(self, t, k, local, server):
        WithDuals.succeeded(self, t, k, local, server)
        FedLesam.succeeded(self, t, k, local, server)


METHODS = {
    "fedsam": FedSam,
    "mofedsam": MoFedSam,
    "fedspeed": FedSpeed,
    "fedsmoo": FedSmoo,
    "fedlesam": FedLesam,
    "fedlesam-s": FedLesamS,
    "fedlesam-d": FedLesamD,
}
