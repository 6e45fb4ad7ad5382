"""Each method as its written objective, to be differentiated by autograd, and its server's step; plain and slow."""

import copy
import math

import torch
from torch.nn import functional


def flat(module):
    """All trainable parameters as one vector, with gradient."""
    return torch.cat([p.reshape(-1) for p in module.parameters() if p.requires_grad])


def set_flat(module, vector):
    with torch.no_grad():
        start = 0
        for p in (p for p in module.parameters() if p.requires_grad):
            p.copy_(vector[start : start + p.numel()].view(p.shape))
            start += p.numel()


class FedAvg:
    """The loss is the cross-entropy; the server takes the mean, weighted by n_k."""

    uniform = False
    decays_itself = False
    """whether the objective holds the weight decay; otherwise the optimizer does"""

    def __init__(self, module, clients, lr, **options):
        self.initial, self.clients, self.lr = flat(module).detach().clone(), clients, lr
        for name, value in options.items():
            setattr(self, name, value)
        self.begin()

    def begin(self):
        pass

    def begin_round(self, t, server, setting):
        """The server has chosen its clients; what they do before they train."""

    def begin_client(self, t, k, local, server):
        """The client has its copy of the global model; whether it starts elsewhere."""

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        return functional.cross_entropy(local(x), y)

    def succeeded(self, t, k, local, server):
        """The client's upload was taken. `self.steps` is how many steps it made."""

    def weights(self, n):
        """How much each client's upload counts, given the clients' numbers of samples."""
        return {k: 1.0 if self.uniform else float(n_k) for k, n_k in n.items()}

    def update(self, w, mean, uploads):  # noqa: ARG002
        return mean


class FedProx(FedAvg):
    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w, w_glob = flat(local), flat(server).detach()
        return functional.cross_entropy(local(x), y) + self.mu / 2 * (w - w_glob).square().sum()


class FedTrip(FedAvg):
    mu = 0.4

    def begin(self):
        self.last, self.hist = {}, {}

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.mu_of = {k: self.weight(len(y), setting) for k, (_, y) in enumerate(setting.pairs)}

    def weight(self, n, setting):  # noqa: ARG002
        return self.mu

    def xi(self, t, gap):  # noqa: ARG002
        return 1 / gap

    def length(self, v):
        return (v * v).sum()

    def objective(self, t, k, local, server, x, y):
        w, w_glob = flat(local), flat(server).detach()
        regulariser = self.length(w - w_glob)
        if k in self.last:
            regulariser = regulariser - self.xi(t, t - self.last[k]) * self.length(w - self.hist[k])
        return functional.cross_entropy(local(x), y) + self.mu_of[k] / 2 * regulariser

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.last[k], self.hist[k] = t, flat(local).detach().clone()


class AnnealedXi(FedTrip):
    tau = 10.0

    def xi(self, t, gap):
        early = math.e ** ((1 - t) / self.tau)
        return early * 1 + (1 - early) * gap**-1


class FedTripAuto(AnnealedXi):
    push = 0.75

    def weight(self, n, setting):
        """What makes μ times how far real SGD travels on a gradient of one the push."""
        w = torch.zeros((), dtype=torch.float64, requires_grad=True)
        sgd = torch.optim.SGD([w], lr=setting.lr, momentum=setting.momentum)
        w.grad, warm_up = torch.ones_like(w), 1000 if setting.keep_optimizer_state else 0
        steps = setting.local_epochs * len(range(0, n, setting.batch_size))
        moved = []
        for _ in range(warm_up + steps):
            before = w.item()
            sgd.step()
            moved.append(before - w.item())
        return self.push / sum(moved[-steps:])


class ConstantXi(FedTrip):
    value = 1.0

    def xi(self, t, gap):  # noqa: ARG002
        return self.value


class GapXi(FedTrip):
    def xi(self, t, gap):  # noqa: ARG002
        return gap


class InverseGapNorm(FedTrip):
    def length(self, v):
        return torch.linalg.vector_norm(v)


class GapNorm(GapXi, InverseGapNorm):
    pass


class SlowMo(FedAvg):
    alpha, beta = 1.0, 0.9

    def begin(self):
        self.u = torch.zeros_like(self.initial)

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.u = self.beta * self.u + (w - mean) / self.lr
        return w - self.alpha * self.lr * self.u


class Moon(FedAvg):
    mu, tau = 1.0, 0.5

    def begin(self):
        self.hist = {}

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        z = local.body(x)
        ce = functional.cross_entropy(local.head(z), y)
        with torch.no_grad():
            z_glob = copy.deepcopy(server).eval().body(x)
            z_hist = self.hist.get(k, copy.deepcopy(server)).eval().body(x)

        def e(a):
            return torch.exp((z * a).sum(1) / (z.norm(dim=1) * a.norm(dim=1)) / self.tau)

        return ce + self.mu * -torch.log(e(z_glob) / (e(z_glob) + e(z_hist))).mean()

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.hist[k] = copy.deepcopy(local)


class FedDyn(FedAvg):
    uniform, alpha = True, 0.1

    def begin(self):
        self.lam, self.h = {}, torch.zeros_like(self.initial)

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w, w_glob = flat(local), flat(server).detach()
        lam = self.lam.get(k, torch.zeros_like(w_glob))
        return functional.cross_entropy(local(x), y) - lam @ w + self.alpha / 2 * (w - w_glob).square().sum()

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        before = self.lam.get(k, torch.zeros_like(self.initial))
        self.lam[k] = before - self.alpha * (flat(local) - flat(server)).detach()

    def update(self, w, mean, uploads):
        self.h = self.h - self.alpha / self.clients * sum(upload - w for upload in uploads)
        return mean - self.h / self.alpha


def full_gradient(server, x, y, weight_decay=0.0):
    """∇F_k(w) on all samples at once, dropout off, BatchNorm with its stored statistics; plus λw."""
    frozen = copy.deepcopy(server).eval()
    functional.cross_entropy(frozen(x), y).backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in frozen.parameters() if p.requires_grad])
    return gradient + weight_decay * flat(server).detach()


def chosen_gradients(t, server, setting):
    """The full gradient of every client of the round."""
    pairs = {k: setting.pairs[k] for k in setting.chosen(t)}
    return {k: full_gradient(server, x.double(), y, setting.weight_decay) for k, (x, y) in pairs.items()}


def weighted(vectors, setting):
    """Σ n_k v_k / Σ n_k"""
    n = {k: len(setting.pairs[k][1]) for k in vectors}
    return sum(n[k] * vector for k, vector in vectors.items()) / sum(n.values())


class Scaffold(FedAvg):
    uniform, option, eta_g = True, "II", 1.0

    def begin(self):
        self.c_k, self.c = {}, torch.zeros_like(self.initial)

    def begin_round(self, t, server, setting):
        self.gradients, self.changes = chosen_gradients(t, server, setting), []

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        c_k = self.c_k.get(k, torch.zeros_like(self.c))
        return functional.cross_entropy(local(x), y) + (self.c - c_k) @ flat(local)

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        before = self.c_k.get(k, torch.zeros_like(self.c))
        way = (flat(server) - flat(local)).detach()
        self.c_k[k] = self.gradients[k] if self.option == "I" else before - self.c + way / (self.steps * self.lr)
        self.changes.append(self.c_k[k] - before)

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.c = self.c + sum(self.changes) / self.clients
        return w + self.eta_g * (mean - w)


class MimeLite(FedAvg):
    beta, decays_itself = 0.9, True

    def begin(self):
        self.s = torch.zeros_like(self.initial)

    def begin_round(self, t, server, setting):
        self.gradients, self.setting, self.taken = chosen_gradients(t, server, setting), setting, {}

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w = flat(local)
        f = functional.cross_entropy(local(x), y) + self.setting.weight_decay / 2 * w.square().sum()
        return (1 - self.beta) * f + self.beta * self.s @ w

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.taken[k] = self.gradients[k]

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.s = (1 - self.beta) * weighted(self.taken, self.setting) + self.beta * self.s
        return mean


class FedDane(FedAvg):
    mu = 0.1

    def begin_round(self, t, server, setting):
        self.gradients = chosen_gradients(t, server, setting)
        self.g_t = weighted(self.gradients, setting)

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w, w_glob = flat(local), flat(server).detach()
        proximal = self.mu / 2 * (w - w_glob).square().sum()
        return functional.cross_entropy(local(x), y) + (self.g_t - self.gradients[k]) @ w + proximal


class FedGkd(FedAvg):
    gamma, temperature, models = 0.2, 1.0, 5

    def begin(self):
        self.aggregates = []

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.teacher = copy.deepcopy(server).eval()
        if self.aggregates:
            set_flat(self.teacher, torch.stack(self.aggregates[-self.models :]).mean(0))

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        logits = local(x)
        ce = functional.cross_entropy(logits, y)
        if t == 1:
            return ce
        with torch.no_grad():
            taught = torch.softmax(self.teacher(x) / self.temperature, dim=1)
        student = torch.softmax(logits / self.temperature, dim=1)
        divergence = (taught * (taught / student).log()).sum(1).mean()
        return ce + self.gamma / 2 * self.temperature**2 * divergence

    def update(self, w, mean, uploads):  # noqa: ARG002
        self.aggregates.append(mean.clone())
        return mean


METHODS = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedtrip": FedTrip,
    "fedtrip-auto": FedTripAuto,
    "slowmo": SlowMo,
    "moon": Moon,
    "feddyn": FedDyn,
    "scaffold": Scaffold,
    "mimelite": MimeLite,
    "feddane": FedDane,
    "fedgkd": FedGkd,
    **{
        f"fedtrip.paper.study_rules:{rule.__name__}": rule
        for rule in (AnnealedXi, ConstantXi, GapXi, InverseGapNorm, GapNorm)
    },
}
