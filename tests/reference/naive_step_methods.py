"""Methods whose local steps use what the server knows, in the letters of their papers; references of `naive.py`."""

import torch
from tests.reference.naive_methods import FedAvg, flat, set_flat
from torch.nn import functional


class FedCm(FedAvg):
    uniform, decays_itself = True, True
    alpha, eta_g = 0.1, 1.0

    def begin(self):
        self.s = torch.zeros_like(self.initial)

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.setting, self.went = setting, []

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w = flat(local)
        f = functional.cross_entropy(local(x), y) + self.setting.weight_decay / 2 * w.square().sum()
        return self.alpha * f + (1 - self.alpha) * self.s @ w

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.went.append((flat(server) - flat(local)).detach() / self.way())

    def way(self):
        """How far real SGD goes in as many steps on a gradient of one."""
        w = torch.zeros((), dtype=torch.float64, requires_grad=True)
        sgd = torch.optim.SGD([w], lr=self.setting.lr, momentum=self.setting.momentum)
        w.grad = torch.ones_like(w)
        for _ in range(self.steps):
            sgd.step()
        return -w.item()

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.s = sum(self.went) / len(self.went)
        return w + self.eta_g * (mean - w)


class FedAcg(FedAvg):
    uniform = True
    lam, mu = 0.85, 0.001

    def begin(self):
        self.m = torch.zeros_like(self.initial)

    def begin_client(self, t, k, local, server):  # noqa: ARG002
        self.v = flat(server).detach() + self.lam * self.m
        set_flat(local, self.v)

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        return functional.cross_entropy(local(x), y) + self.mu / 2 * (flat(local) - self.v).square().sum()

    def update(self, w, mean, uploads):  # noqa: ARG002
        v = w + self.lam * self.m
        self.m = self.lam * self.m + sum(upload - v for upload in uploads) / len(uploads)
        return w + self.m


class FedDc(FedAvg):
    uniform, alpha = True, 0.1

    def begin(self):
        self.h_k, self.c_k = ([torch.zeros_like(self.initial) for _ in range(self.clients)] for _ in range(2))
        self.h = self.c = torch.zeros_like(self.initial)

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.changes = []

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w, w_glob = flat(local), flat(server).detach()
        drifted = self.alpha / 2 * (w + self.h_k[k] - w_glob).square().sum()
        return functional.cross_entropy(local(x), y) + drifted + (self.c - self.c_k[k]) @ w

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        delta = (flat(local) - flat(server)).detach()
        self.h_k[k] = self.h_k[k] + delta
        self.changes.append(-self.c - delta / (self.steps * self.lr))
        self.c_k[k] = self.c_k[k] + self.changes[-1]

    def update(self, w, mean, uploads):
        self.h = self.h + sum(upload - w for upload in uploads) / self.clients
        self.c = self.c + sum(self.changes) / self.clients
        return mean + self.h


class FedInit(FedAvg):
    uniform = True
    beta, newcomer, average = 0.1, "initial", "models"

    def begin(self):
        self.last = {}

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.went = []

    def begin_client(self, t, k, local, server):  # noqa: ARG002
        w = flat(server).detach()
        last = self.last.get(k, self.initial if self.newcomer == "initial" else w)
        self.begun = (1 + self.beta) * w - self.beta * last
        set_flat(local, self.begun)

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.last[k] = flat(local).detach().clone()
        self.went.append(self.last[k] - self.begun)

    def update(self, w, mean, uploads):  # noqa: ARG002
        return mean if self.average == "models" else w + sum(self.went) / len(self.went)


METHODS = {
    "fedcm": FedCm,
    "fedacg": FedAcg,
    "feddc": FedDc,
    "fedinit": FedInit,
}
