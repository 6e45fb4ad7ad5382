"""The methods that change the clients' loss, each as its written objective; plain and slow."""

import copy

import torch
from tests.reference.naive_methods import FedAvg
from torch.nn import functional


class FedNtd(FedAvg):
    beta, tau = 1.0, 1.0

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        logits, term = local(x), 0.0
        with torch.no_grad():
            taught = copy.deepcopy(server).eval()(x)
        for z, z_glob, label in zip(logits, taught, y.tolist(), strict=True):
            others = [c for c in range(len(z)) if c != label]
            p = torch.softmax(z_glob[others] / self.tau, 0)
            q = torch.softmax(z[others] / self.tau, 0)
            term = term + (p * (p / q).log()).sum() / len(y)
        return functional.cross_entropy(logits, y) + self.beta * self.tau**2 * term


class FedLc(FedAvg):
    tau = 1.0

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.labels = {k: y.tolist() for k, (_, y) in enumerate(setting.pairs)}

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        held = sorted(set(self.labels[k]))  # the classes that the client has, and no others
        margin = torch.tensor([self.tau * self.labels[k].count(c) ** -0.25 for c in held], dtype=torch.float64)
        places = torch.tensor([held.index(label) for label in y.tolist()])
        return functional.cross_entropy(local(x)[:, held] - margin, places)


class FedDecorr(FedAvg):
    beta = 0.1

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        z = local.body(x)
        ce = functional.cross_entropy(local.head(z), y)
        samples, features = z.shape
        if samples == 1:
            return ce
        columns = [(c - c.mean()) / torch.sqrt(c.var() + 1e-8) for c in z.unbind(1)]
        pairs = [(i, j) for i in range(features) for j in range(features) if i != j]
        return ce + self.beta * sum((columns[i] @ columns[j]) ** 2 for i, j in pairs) / len(pairs) / samples


class FedAlign(FedAvg):
    mu, width = 0.45, 0.25

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        ce, layer = functional.cross_entropy(local(x), y), local.body[0]
        outputs, inputs = (max(1, round(self.width * size)) for size in layer.weight.shape)
        ell = 0.0
        for h in x:  # σ of the whole matrix is a constant
            with torch.no_grad():
                whole = torch.linalg.svdvals(torch.outer(h, layer(h)))[0]
            f = layer.weight[:outputs, :inputs] @ h[:inputs] + layer.bias[:outputs]
            ell = ell + (torch.linalg.svdvals(torch.outer(h[:inputs], f))[0] - whole) ** 2 / len(x)
        return ce + self.mu * (ce / (ell + 1e-12)).detach() * ell


METHODS = {
    "fedntd": FedNtd,
    "fedlc": FedLc,
    "feddecorr": FedDecorr,
    "fedalign": FedAlign,
}
