"""Methods whose clients are FedAvg's: their servers' steps in plain float64; the slow references of `naive.py`."""

import math

import numpy as np
import torch
from tests.reference.naive_methods import FedAvg, FedProx


class ServerRule(FedAvg):
    """Its option `lr` is the server's rate, not the clients'."""

    server_lr = 0.01

    def __init__(self, module, clients, local_lr, /, **options):
        super().__init__(module, clients, local_lr, server_lr=options.pop("lr", self.server_lr), **options)


class FedAvgM(ServerRule):
    beta, server_lr = 0.9, 1.0

    def begin(self):
        self.u = torch.zeros_like(self.initial)

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.u = self.beta * self.u + w - mean
        return w - self.server_lr * self.u


class FedAdam(ServerRule):
    beta1, beta2, tau, bias_correction = 0.9, 0.99, 1e-3, False

    def begin(self):
        first = 0.0 if self.bias_correction else self.tau**2
        self.m, self.v, self.t = torch.zeros_like(self.initial), torch.full_like(self.initial, first), 0

    def moved(self, v, square):
        return self.beta2 * v + (1 - self.beta2) * square

    def update(self, w, mean, uploads):  # noqa: ARG002
        delta = mean - w
        self.m = self.beta1 * self.m + (1 - self.beta1) * delta
        self.v, self.t = self.moved(self.v, delta**2), self.t + 1
        corrected = math.sqrt(1 - self.beta2**self.t) / (1 - self.beta1**self.t) if self.bias_correction else 1.0
        return w + self.server_lr * corrected * self.m / (torch.sqrt(self.v) + self.tau)


class FedYogi(FedAdam):
    def moved(self, v, square):
        return v - (1 - self.beta2) * square * torch.sign(v - square)


class FedAdagrad(FedAdam):
    beta1 = 0.0

    def moved(self, v, square):
        return v + square


class OfEach(FedAvg):
    """Knows p_k = n_k/Σn of the round's clients, in the order of their uploads."""

    def begin_round(self, t, server, setting):  # noqa: ARG002
        n = [len(setting.pairs[k][1]) for k in setting.chosen(t)]
        self.p = [n_k / sum(n) for n_k in n]


class FedExp(OfEach):
    eps, eps_each = 1e-3, False

    def begin(self):
        self.rates = []

    def update(self, w, mean, uploads):
        apart = sum(p_k * (upload - w).square().sum() for p_k, upload in zip(self.p, uploads, strict=True))
        eps = self.eps * (len(uploads) if self.eps_each else 1)
        self.rates.append(max(1.0, float(apart / (2 * ((mean - w).square().sum() + eps)))))
        return w + self.rates[-1] * (mean - w)


class FedNova(OfEach, FedProx):
    mu, tau_eff = 0.0, "travel"

    def begin_round(self, t, server, setting):
        super().begin_round(t, server, setting)
        ways = [self.way(len(setting.pairs[k][1]), setting) for k in setting.chosen(t)]
        self.tau, self.lengths = zip(*ways, strict=True)

    def way(self, n, setting):
        """How far real SGD goes on a gradient of one with the pull μx, and η·K."""
        w = torch.zeros((), dtype=torch.float64, requires_grad=True)
        sgd = torch.optim.SGD([w], lr=setting.lr, momentum=setting.momentum)
        for _ in range(1000 if setting.keep_optimizer_state else 0):
            w.grad = torch.ones_like(w)
            sgd.step()
        with torch.no_grad():
            w.zero_()
        steps = setting.local_epochs * len(range(0, n, setting.batch_size))
        for _ in range(steps):
            w.grad = 1 + self.mu * w.detach()
            sgd.step()
        return -w.item(), setting.lr * steps

    def update(self, w, mean, uploads):  # noqa: ARG002
        shares = zip(self.p, self.tau, uploads, strict=True)
        d = sum(p_k * (w - upload) / tau_k for p_k, tau_k, upload in shares)
        counted = self.tau if self.tau_eff == "travel" else self.lengths
        return w - sum(p_k * x for p_k, x in zip(self.p, counted, strict=True)) * d


class FedDisco(FedAvg):
    a, b, measure = 0.5, 0.1, "kl"

    def begin_round(self, t, server, setting):  # noqa: ARG002
        labels = {k: setting.pairs[k][1].numpy() for k in setting.chosen(t)}
        classes = 1 + max(int(y.max()) for _, y in setting.pairs)
        self.q = {k: np.bincount(y, minlength=classes) / len(y) for k, y in labels.items()}

    def distance(self, q):
        uniform = np.full(len(q), 1 / len(q))
        if self.measure == "kl":
            return sum(x * math.log(x / u) for x, u in zip(q, uniform, strict=True) if x > 0)
        if self.measure == "cosine":
            return 1 - q @ uniform / (np.linalg.norm(q) * np.linalg.norm(uniform))
        return np.linalg.norm(q - uniform, ord=1 if self.measure == "l1" else 2)

    def weights(self, n):
        d = {k: self.distance(self.q[k]) for k in n}
        if self.measure == "kl":
            d = {k: x / sum(d.values()) for k, x in d.items()}
        return {k: max(0.0, n[k] / sum(n.values()) - self.a * d[k] + self.b) for k in n}


METHODS = {
    "fedavgm": FedAvgM,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedexp": FedExp,
    "fednova": FedNova,
    "feddisco": FedDisco,
}
