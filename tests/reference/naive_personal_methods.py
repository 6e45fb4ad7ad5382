"""The methods that give clients models of their own, plain and slow: autograd in float64, module by module.

`PERSONAL` has for each what a client does with the module that it received; `run_personal` is the federation around it,
`run_library` the library's run in the same form, and `assert_follows_personally` compares all models of the two.
`play_apart` is `play` on quadratics where parts of the vector stay with their client.
"""

import copy

import torch
from tests.reference.naive import CLOSE, apart
from tests.reference.quadratic import QuadraticLocal
from tests.reference.watching import Wire, advance, named
from torch import nn
from torch.nn import functional

from fedtrip.combining.mean import Mean
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.given_data import as_dataset
from fedtrip.layout import Layout, Part, Travelling
from fedtrip.methods.interface import CostSymbols, Memory, Method, Server, Upload
from fedtrip.randomness import permutation, stream
from fedtrip.rounds.client_scores import own_model, trained_models
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.rounds.tally import Tally

NORMS = ("body.1.",)
"""Where `normalised()` has its norm layer."""


def parameters_of(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def batches(setting, t, k, purpose, epochs):
    """The inputs and labels of every step, in float64."""
    x, y = setting.pairs[k][0].double(), setting.pairs[k][1]
    generator = stream(setting.seed, purpose, t, k)
    for _ in range(epochs):
        order = permutation(generator, len(y))
        for start in range(0, len(y), setting.batch_size):
            rows = torch.from_numpy(order[start : start + setting.batch_size])
            yield x[rows], y[rows]


class LocalOnly:
    """Every client goes on with its own module; nothing travels."""

    uniform = False

    def __init__(self, setting, **options):
        self.setting, self.own = setting, {}
        for name, value in options.items():
            setattr(self, name, value)

    def travels(self, name):  # noqa: ARG002
        return False

    def received(self, k, server):
        """The client's module: its own where nothing travels."""
        module = copy.deepcopy(server)
        if k in self.own:
            mine = self.own[k].state_dict()
            module.load_state_dict({n: v if self.travels(n) else mine[n] for n, v in server.state_dict().items()})
        return module

    def client(self, t, k, server):
        """What it sends; whatever of it does not travel is its own."""
        self.own[k] = self.train(t, k, self.received(k, server))
        return self.own[k]

    def personal(self, k, server):
        return self.received(k, server)

    def mean(self, before, mean):  # noqa: ARG002
        return mean

    def train(self, t, k, module, purpose="batches", epochs=None, only=None, extra=None):
        """torch's SGD on the parameters whose names are let through, on the cross entropy and something more."""
        setting, module = self.setting, copy.deepcopy(module).train()
        moving = [p for name, p in module.named_parameters() if only is None or only(name)]
        sgd = torch.optim.SGD(moving, lr=setting.lr, momentum=setting.momentum, weight_decay=setting.weight_decay)
        for x, y in batches(setting, t, k, purpose, setting.local_epochs if epochs is None else epochs):
            module.zero_grad()
            loss = functional.cross_entropy(module(x), y)
            (loss if extra is None else loss + extra(module)).backward()
            sgd.step()
        module.zero_grad()
        return module


class FedAvg(LocalOnly):
    def travels(self, name):  # noqa: ARG002
        return True


class FedBn(LocalOnly):
    def travels(self, name):
        return not name.startswith(NORMS)


class FedPer(LocalOnly):
    def travels(self, name):
        return not name.startswith("head.")


class LgFedAvg(LocalOnly):
    uniform = True

    def travels(self, name):
        return name.startswith("head.")


class FedRep(FedPer):
    head_epochs = 10

    def client(self, t, k, server):
        def is_head(name):
            return name.startswith("head.")

        fitted = self.train(t, k, self.received(k, server), "head", self.head_epochs, only=is_head)
        self.own[k] = self.train(t, k, fitted, only=lambda name: not is_head(name))
        return self.own[k]


class FedBabu(FedPer):
    uniform, tuned, tuning_epochs = True, "all", 5

    def client(self, t, k, server):
        return self.train(t, k, server, only=lambda name: not name.startswith("head."))

    def personal(self, k, server):
        part = {"all": "", "head": "head.", "body": "body."}[self.tuned]
        t = self.setting.rounds
        return self.train(t, k, server, "tuning", self.tuning_epochs, only=lambda name: name.startswith(part))


class Ditto(FedAvg):
    lam = 1.0

    def client(self, t, k, server):
        anchor = parameters_of(server)

        def near(module):
            v = torch.cat([p.reshape(-1) for p in module.parameters()])
            return self.lam / 2 * (v - anchor).square().sum()

        self.own[k] = self.train(t, k, self.own.get(k, server), "ditto", extra=near)
        return self.train(t, k, server)

    def personal(self, k, server):
        return self.own.get(k, server)


class PFedMe(FedAvg):
    lam, steps, eta_p, beta = 15.0, 5, 0.09, 1.0

    def client(self, t, k, server):
        setting = self.setting
        module, theta = (copy.deepcopy(server).train() for _ in range(2))
        for x, y in batches(setting, t, k, "batches", setting.local_epochs):
            for inner in range(self.steps):
                theta.zero_grad()
                near = sum((a - b.detach()).square().sum() for a, b in _pairs(theta, module))
                (functional.cross_entropy(theta(x), y) + self.lam / 2 * near).backward()
                if inner == 0:  # the statistics of BatchNorm see each batch once
                    seen = {name: buffer.clone() for name, buffer in theta.named_buffers()}
                with torch.no_grad():
                    for p in theta.parameters():
                        p -= self.eta_p * p.grad
            if self.steps:
                theta.load_state_dict(seen, strict=False)
                module.load_state_dict(seen, strict=False)
            with torch.no_grad():
                for p, q in _pairs(module, theta):
                    p -= setting.lr * (self.lam * (p - q) + setting.weight_decay * p)
        self.own[k] = theta
        return module

    def personal(self, k, server):
        return self.own.get(k, server)

    def mean(self, before, mean):
        return (1 - self.beta) * before + self.beta * mean


class Apfl(FedAvg):
    alpha, adaptive = 0.5, False

    def client(self, t, k, server):
        setting = self.setting
        module = copy.deepcopy(server).train()
        v, alpha = self.own.get(k, (copy.deepcopy(server), self.alpha))
        first = True
        for x, y in batches(setting, t, k, "batches", setting.local_epochs):
            mixed = self.mixed(v, module, alpha).train()
            functional.cross_entropy(mixed(x), y).backward()
            module.zero_grad()
            functional.cross_entropy(module(x), y).backward()
            with torch.no_grad():
                slope = sum(
                    ((p - q) * m.grad).sum() for (p, q), m in zip(_pairs(v, module), mixed.parameters(), strict=True)
                )
                for p, q, m in zip(module.parameters(), v.parameters(), mixed.parameters(), strict=True):
                    q -= setting.lr * alpha * m.grad
                    p -= setting.lr * (p.grad + setting.weight_decay * p)
            if first and self.adaptive:
                alpha = min(max(alpha - setting.lr * float(slope), 0.0), 1.0)
            first = False
        self.own[k] = v, alpha
        return module

    def mixed(self, v, module, alpha):
        """α of v and 1 − α of the module, whose buffers it has."""
        found = copy.deepcopy(module)
        with torch.no_grad():
            for p, q in _pairs(found, v):
                p.copy_(alpha * q + (1 - alpha) * p)
        found.zero_grad()
        return found

    def personal(self, k, server):
        return self.mixed(self.own[k][0], server, self.own[k][1]) if k in self.own else server


def _pairs(one, other):
    return zip(one.parameters(), other.parameters(), strict=True)


PERSONAL = {
    "fedavg": FedAvg,
    "local": LocalOnly,
    "fedbn": FedBn,
    "fedper": FedPer,
    "lg-fedavg": LgFedAvg,
    "fedrep": FedRep,
    "fedbabu": FedBabu,
    "ditto": Ditto,
    "pfedme": PFedMe,
    "apfl": Apfl,
}


def run_personal(setting, method, **options):
    """The reference's global module, and each client's own."""
    server, reference = copy.deepcopy(setting.module).double(), PERSONAL[method](setting, **options)
    for t in range(1, setting.rounds + 1):
        uploads = {k: reference.client(t, k, copy.deepcopy(server)).state_dict() for k in setting.chosen(t)}
        weights = {k: 1.0 if reference.uniform else float(len(setting.pairs[k][1])) for k in uploads}
        whole, state = sum(weights.values()), server.state_dict()
        for name, before in state.items():
            if not reference.travels(name):
                continue
            if not before.is_floating_point():
                state[name] = torch.stack([upload[name] for upload in uploads.values()]).amax(0)
                continue
            mean = sum(weights[k] / whole * upload[name] for k, upload in uploads.items())
            is_parameter = name in dict(server.named_parameters())
            state[name] = reference.mean(before, mean) if is_parameter else mean
        server.load_state_dict(state)
    return server, [reference.personal(k, copy.deepcopy(server)) for k in range(len(setting.pairs))]


def run_library(setting, method, **options):
    """The library's global model and each client's own as state dicts, and the records; every upload was seen."""
    described = setting.experiment("fedavg").but(method=method) if isinstance(method, Method) else None
    federation = (
        setting.federation(method, **options)
        if described is None
        else prepare(described, model=setting.module, data=as_dataset(setting.data, described))
    )
    wire, state = Wire(federation), initial_state(federation, ClientStore())
    with torch.random.fork_rng(devices=[]):
        records = [advance(federation, wire, state) for _ in range(setting.rounds)]
    model, travelling = state.server.model, state.travelling
    memories = [state.memories.get(k) for k in range(len(setting.pairs))]
    if type(federation.method).personalise is not Method.personalise:
        sent = travelling.cut(model)
        own = trained_models(wire, setting.rounds, sent, dict(enumerate(memories)))
    else:
        own = [own_model(federation.method, travelling, model, memory) for memory in memories]
    return named(federation, model), [named(federation, one) for one in own], records


def assert_follows_personally(setting, method, **options):
    """The library's global model and all models of the clients' own equal the reference's, and are not FedAvg's."""
    module, modules = run_personal(setting, method, **options)
    model, own, _ = run_library(setting, method, **options)
    assert apart(model, module) < CLOSE
    assert max(map(apart, own, modules)) < CLOSE
    _, usual = run_personal(setting, "fedavg")
    assert max(apart(found, wanted) for found, wanted in zip(own, usual, strict=True)) > 1000 * CLOSE


COST = CostSymbols(K=7, M=4, n=25, w=10, FP=100.0, BP=200.0)
"""Letters for the costs of `attaching`."""


def same(one, other):
    """Whether two state dicts have the same bits."""
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


LAYOUT = Layout({"body.weight": Part("w", 0, 1, (1,), nn.Conv1d), "head.weight": Part("w", 1, 2, (1,), nn.Linear)})
"""Two numbers: a body and a head."""


def play_apart(method, *, b, samples, chosen, layout=LAYOUT, lr=0.5, steps=2, start=(0.0, 0.0)):
    """Rounds on quadratics; after each the global parameters, and those of every client that took part, as numbers."""
    w, travelling = torch.tensor(start), Travelling(layout, method.stays(layout))
    server = Server(model={"w": w}, state=method.start(w), clients=len(b), lr=lr)
    memories, history = {}, []
    for t, clients in enumerate(chosen, 1):
        server = Server(server.model, server.state, t, 0, len(b), lr)
        sent, expected = travelling.cut(method.broadcast(server)), travelling.cut(method.expected(server))
        tally = Tally(method, Mean(), sent, expected, keep_all=False)
        for k in clients:
            memory = memories.get(k, Memory())
            local = QuadraticLocal(b[k], round_number=t, lr=lr, steps=steps, initial=w, layout=layout)
            reply = method.client(travelling.whole(sent, {"w": w}, memory.personal), memory, local)
            memories[k] = Memory(reply.keep, t, personal=travelling.personal(reply.upload))
            tally.add(Upload(k, samples[k], travelling.cut(reply.upload)))
        uploads = tally.combined({}, None)[0]
        uploads.means.update(travelling.whole(uploads.means, server.model, {}))
        server = method.aggregate(server, uploads)
        own = {k: own_model(method, travelling, server.model, memory)["w"].tolist() for k, memory in memories.items()}
        history.append((server.w.tolist(), own))
    return history
