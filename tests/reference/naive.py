"""A slow and plain reference: torch.optim.SGD on each method's written objective, with autograd, in float64.

Of the library it takes only the randomness: which clients a round has, and the order of a client's samples.
"""

import copy

import torch
from tests.reference.naive_loss_methods import METHODS as LOSS_METHODS
from tests.reference.naive_methods import METHODS as PAPERS_METHODS
from tests.reference.naive_methods import flat, set_flat
from tests.reference.naive_server_methods import METHODS as SERVER_METHODS
from tests.reference.naive_sharp_methods import METHODS as SHARP_METHODS
from tests.reference.naive_step_methods import METHODS as STEP_METHODS

from fedtrip.randomness import permutation, stream

METHODS = {**PAPERS_METHODS, **SERVER_METHODS, **STEP_METHODS, **SHARP_METHODS, **LOSS_METHODS}


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
            reference.begin_client(t, k, local, server)
            trainable = [p for p in local.parameters() if p.requires_grad]
            decay = 0.0 if reference.decays_itself else setting.weight_decay
            optimizer = torch.optim.SGD(trainable, lr=setting.lr, momentum=setting.momentum, weight_decay=decay)
            if setting.keep_optimizer_state and k in momenta:
                optimizer.load_state_dict(copy.deepcopy(momenta[k]))
            generator = stream(setting.seed, "batches", t, k)
            reference.steps = 0
            for _ in range(setting.local_epochs):
                order = permutation(generator, len(y))
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
    weights = reference.weights({k: n for k, (n, _) in uploads.items()})
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
