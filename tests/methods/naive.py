"""A slow and plain reference: torch.optim.SGD on each method's written objective, with autograd, in float64.

Of the library it takes only the randomness: which clients a round has, and the order of a client's samples.
"""

import copy
import math
from dataclasses import dataclass, field, replace

import torch
from torch import nn
from torch.nn import functional

import fedtrip
from fedtrip.api import as_dataset
from fedtrip.engines.serial import SerialEngine
from fedtrip.federation import prepare
from fedtrip.flat import FlatModel
from fedtrip.randomness import stream
from fedtrip.rounds import chosen_clients, initial_state, one_round
from fedtrip.store import ClientStore

SIZES = (7, 10, 3, 12, 6)
"""n_k: not equal, one below the batch size of 4, no last batch of one sample (BatchNorm)"""
FEATURES, CLASSES = 6, 3


class Net(nn.Module):
    """Two layers; the representation is the output of `body`."""

    def __init__(self, *middle):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 5), *(middle or (nn.Tanh(),)))
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


def made(factory, seed=1):
    """A module with weights that do not depend on other tests."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory()


def samples(sizes=SIZES, seed=0, features=FEATURES, classes=CLASSES):
    """Inputs and labels for each client, each client with its own mean, so that the clients drift apart."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for n in sizes:
        x = torch.randn(n, features, generator=generator) + torch.randn(features, generator=generator)
        pairs.append((x, torch.randint(0, classes, (n,), generator=generator)))
    pairs[0][1][0] = classes - 1
    return pairs


@dataclass(frozen=True)
class Setting:
    """One federation; the same for the library and the reference."""

    module: nn.Module = field(default_factory=lambda: made(Net))
    pairs: list = field(default_factory=samples)
    per_round: int = 2
    rounds: int = 6
    lr: float = 0.1
    momentum: float = 0.0
    batch_size: int = 4
    local_epochs: int = 1
    weight_decay: float = 0.0
    keep_optimizer_state: bool = False
    seed: int = 3

    @property
    def data(self):
        return fedtrip.from_clients(self.pairs, self.pairs[0], mean=0.0, std=1.0)

    def experiment(self, method, **options):
        return fedtrip.Experiment(
            method={"name": method, "options": options},
            per_round=self.per_round,
            rounds=self.rounds,
            lr=self.lr,
            momentum=self.momentum,
            batch_size=self.batch_size,
            local_epochs=self.local_epochs,
            weight_decay=self.weight_decay,
            keep_optimizer_state=self.keep_optimizer_state,
            seed=self.seed,
            eval_every=self.rounds,
        )

    def run(self, method, **options):
        """The library's result."""
        return fedtrip.run(self.experiment(method, **options), model=self.module, data=self.data, workers=1)

    def federation(self, method, **options):
        return prepare(self.experiment(method, **options), model=self.module, data=as_dataset(self.data))

    def chosen(self, number):
        return chosen_clients(self.seed, number, len(self.pairs), self.per_round)

    def but(self, **changes):
        return replace(self, **changes)


NORMALISED_SIZES = (16, 24, 8, 32, 14)


def normalised(**changes):
    """A setting with BatchNorm. Its batches are larger and its ε too: else it multiplies rounding by thousands."""
    module = made(lambda: Net(nn.BatchNorm1d(5, eps=0.1), nn.Tanh()))
    return Setting(module=module, pairs=samples(NORMALISED_SIZES), batch_size=8, **changes)


class FailingEngine:
    """A serial engine whose clients upload NaN in the given (round, client)."""

    def __init__(self, federation, failures):
        self._engine, self._failures = SerialEngine(federation), failures

    def clients(self, tasks):
        outcomes = list(self._engine.clients(tasks))
        for i, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
            if (task.round, task.client) in self._failures and "w" in outcome.upload:
                spoilt = outcome.upload["w"].clone()
                spoilt[-1] = math.nan
                outcomes[i] = replace(outcome, upload={**outcome.upload, "w": spoilt})
        return outcomes

    def evaluate(self, model):
        return self._engine.evaluate(model)


class Wire:
    """A serial engine that keeps what went down to every client and what came up, by (round, exchange, client)."""

    def __init__(self, federation):
        self._engine, self.down, self.up = SerialEngine(federation), {}, {}

    def clients(self, tasks):
        outcomes = self._engine.clients(tasks)
        for task, outcome in zip(tasks, outcomes, strict=True):
            key = (task.round, task.exchange, task.client)
            self.down[key], self.up[key] = task.received, outcome.upload
        return outcomes

    def evaluate(self, model):
        return self._engine.evaluate(model)

    def names(self, direction, round_number, exchange=0):
        """The names of what travelled, the same for every client of the exchange."""
        (names,) = {tuple(v) for (t, e, _), v in direction.items() if (t, e) == (round_number, exchange)}
        return set(names)


def watched(setting, method, **options):
    """The wire, the records and the states after every round of a run (copies: the server and all memories)."""
    federation = setting.federation(method, **options)
    wire, state = Wire(federation), initial_state(federation, ClientStore())
    records, history = [], []
    with torch.random.fork_rng(devices=[]):
        for _ in range(setting.rounds):
            records.append(one_round(federation, wire, state)[0])
            history.append((state.server, [state.memories.get(k) for k in range(len(setting.pairs))]))
    return wire, records, history


def bytes_of(setting):
    """Bytes of w, and of w with all buffers."""
    buffers = sum(buffer.nbytes for buffer in setting.module.buffers())
    return 4 * flat(setting.module).numel(), 4 * flat(setting.module).numel() + buffers


def run_with_failures(setting, failures, method, **options):
    """The library's state after the last round, its records and its model as a state dict, some uploads being NaN."""
    federation = setting.federation(method, **options)
    engine, state = FailingEngine(federation, failures), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        records = [one_round(federation, engine, state)[0] for _ in range(setting.rounds)]
    return state, records, named(federation, state.server.model)


def named(federation, model):
    """A model of flat vectors as a state dict; in which order parameters lie in a vector is the library's affair."""
    return FlatModel(federation.module, federation.dataset.sample_shape).state_dict(model)


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

    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        return functional.cross_entropy(local(x), y)

    def succeeded(self, t, k, local, server):
        """The client's upload was taken. `self.steps` is how many steps it made."""

    def update(self, w, mean, uploads):  # noqa: ARG002
        return mean


class FedProx(FedAvg):
    def objective(self, t, k, local, server, x, y):  # noqa: ARG002
        w, w_glob = flat(local), flat(server).detach()
        return functional.cross_entropy(local(x), y) + self.mu / 2 * (w - w_glob).square().sum()


class FedTrip(FedAvg):
    mu, xi, xi_value, xi_rounds, penalty, first, reach = 0.4, "annealed", 1.0, 10.0, "squared", "prox", 0.0

    def begin(self):
        self.last, self.hist = {}, {}

    def begin_round(self, t, server, setting):  # noqa: ARG002
        self.mu_of = {k: self.limited(len(y), setting) for k, (_, y) in enumerate(setting.pairs)}

    def limited(self, n, setting):
        """μ, lowered so that μ times the way of real SGD on a gradient of one is at most the reach."""
        if not self.reach or self.penalty == "norm":
            return self.mu
        w = torch.zeros((), dtype=torch.float64, requires_grad=True)
        sgd = torch.optim.SGD([w], lr=setting.lr, momentum=setting.momentum)
        w.grad, warm_up = torch.ones_like(w), 1000 if setting.keep_optimizer_state else 0
        steps = setting.local_epochs * len(range(0, n, setting.batch_size))
        way = []
        for _ in range(warm_up + steps):
            before = w.item()
            sgd.step()
            way.append(before - w.item())
        return min(self.mu, self.reach / sum(way[-steps:]))

    def objective(self, t, k, local, server, x, y):
        w, w_glob = flat(local), flat(server).detach()
        ce = functional.cross_entropy(local(x), y)
        if k in self.last:
            w_hist, gap = self.hist[k], t - self.last[k]
        elif self.first == "initial":
            w_hist, gap = self.initial, t
        elif self.first == "none":
            return ce
        else:
            w_hist, gap = None, None
        near, away = w - w_glob, None if w_hist is None else w - w_hist
        length = {"squared": lambda v: (v * v).sum(), "norm": torch.linalg.vector_norm}[self.penalty]
        regulariser = length(near)
        if away is not None:
            rules = {"inverse-gap": 1 / gap, "constant": self.xi_value, "gap": gap}
            early = math.e ** ((1 - t) / self.xi_rounds)
            xi = early * 1 + (1 - early) * gap**-1 if self.xi == "annealed" else rules[self.xi]
            regulariser = regulariser - xi * length(away)
        return ce + self.mu_of[k] / 2 * regulariser

    def succeeded(self, t, k, local, server):  # noqa: ARG002
        self.last[k], self.hist[k] = t, flat(local).detach().clone()


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
    "slowmo": SlowMo,
    "moon": Moon,
    "feddyn": FedDyn,
    "scaffold": Scaffold,
    "mimelite": MimeLite,
    "feddane": FedDane,
    "fedgkd": FedGkd,
}


def run_naive(setting, method, failures=(), **options):
    """The reference's final global module, in float64, and the method's reference object."""
    server = copy.deepcopy(setting.module).double()
    reference = METHODS[method](server, len(setting.pairs), setting.lr, **options)
    momenta = {}
    for t in range(1, setting.rounds + 1):
        uploads = {}
        reference.begin_round(t, server, setting)
        for k in setting.chosen(t):
            x, y = setting.pairs[k][0].double(), setting.pairs[k][1]
            local = copy.deepcopy(server).train()
            trainable = [p for p in local.parameters() if p.requires_grad]
            decay = 0.0 if reference.decays_itself else setting.weight_decay
            optimizer = torch.optim.SGD(trainable, lr=setting.lr, momentum=setting.momentum, weight_decay=decay)
            if setting.keep_optimizer_state and k in momenta:
                optimizer.load_state_dict(copy.deepcopy(momenta[k]))
            generator = stream(setting.seed, "batches", t, k)
            reference.steps = 0
            for _ in range(setting.local_epochs):
                order = generator.permutation(len(y))
                for start in range(0, len(y), setting.batch_size):
                    rows = torch.from_numpy(order[start : start + setting.batch_size])
                    optimizer.zero_grad()
                    reference.objective(t, k, local, server, x[rows], y[rows]).backward()
                    optimizer.step()
                    reference.steps += 1
            if (t, k) in failures:
                continue
            reference.succeeded(t, k, local, server)
            momenta[k] = optimizer.state_dict()
            uploads[k] = local.requires_grad_(False)
        _aggregate(server, reference, {k: (len(setting.pairs[k][1]), local) for k, local in uploads.items()})
    return server, reference


def _aggregate(server, reference, uploads):
    weights = {k: 1.0 if reference.uniform else float(n) for k, (n, _) in uploads.items()}
    whole = sum(weights.values())
    w = flat(server).detach()
    uploaded = [
        torch.cat([dict(local.named_parameters())[name].reshape(-1) for name, p in _trainable(server)])
        for _, local in uploads.values()
    ]
    mean = sum(weight / whole * vector for weight, vector in zip(weights.values(), uploaded, strict=True))
    set_flat(server, reference.update(w, mean, uploaded))
    for name, buffer in server.named_buffers():
        values = torch.stack([dict(local.named_buffers())[name] for _, local in uploads.values()])
        if buffer.is_floating_point():
            shares = torch.tensor([weight / whole for weight in weights.values()], dtype=values.dtype)
            buffer.copy_(torch.tensordot(shares, values, 1))
        else:
            buffer.copy_(values.amax(0))


def _trainable(module):
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def apart(state, module):
    """The largest difference between a library's state dict and a reference module, over everything in it."""
    wanted = module.state_dict()
    assert list(state) == list(wanted)
    return max(float((state[name].double() - wanted[name].double()).abs().max()) for name in wanted)


def gaps(setting):
    """All gaps t − last of clients that take part again, and how many newcomers there are after round 1."""
    last, found, newcomers = {}, set(), 0
    for t in range(1, setting.rounds + 1):
        for k in setting.chosen(t):
            if k in last:
                found.add(t - last[k])
            elif t > 1:
                newcomers += 1
            last[k] = t
    return found, newcomers


CLOSE = 2e-6
"""How near the library's float32 must come to the reference's float64, in every parameter and buffer."""


def assert_follows(setting, method, **options):
    """The library's run equals the reference's, and is not simply FedAvg's."""
    module, _ = run_naive(setting, method, **options)
    assert apart(setting.run(method, **options).state, module) < CLOSE
    if method != "fedavg":
        assert apart(run_naive(setting, "fedavg")[0].float().state_dict(), module) > 1000 * CLOSE
