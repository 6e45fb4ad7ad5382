"""Clients whose loss is F_k(w) = ½‖w − b_k‖², so that every step of a method can be followed by hand."""

import torch

from fedtrip.combining.mean import Mean
from fedtrip.methods.interface import Batch, Memory, Server, Upload
from fedtrip.rounds.tally import Tally


class QuadraticLocal:
    """The tools of a client (`fedtrip.methods.Local`): SGD on the quadratic. Its "representation" of its one sample
    is the vector of parameters itself, and so are its logits."""

    def __init__(self, b, *, round_number, lr, steps, initial, momentum=0.0, exchange=0, layout=None):
        self.exchange, self.layout = exchange, layout
        self.b, self.round, self.lr, self.steps, self.initial = torch.tensor(b), round_number, lr, steps, initial
        self.momentum = momentum
        self.corrections = []
        self.orders = []
        self.asked = []

    @property
    def travel(self):
        length = velocity = 0.0
        for _ in range(self.steps):
            velocity = self.momentum * velocity + 1
            length += self.lr * velocity
        return length

    def travel_with(self, prox):
        x = velocity = 0.0
        for _ in range(self.steps):
            velocity = self.momentum * velocity + 1 + prox * x
            x -= self.lr * velocity
        return -x

    def train(self, start, correction=None, extra_loss=None, *, loss=None, direction=None, only=None, lr_scale=1.0,
              epochs=None, order="batches"):  # fmt: skip
        """`epochs` are as many steps, since there is one sample; `only` are names of the `layout` that it was given."""
        self.corrections.append(correction)
        self.orders.append(order)
        w, h = start["w"].clone(), torch.zeros_like(start["w"])
        moves = torch.ones_like(w, dtype=torch.bool) if only is None else self.layout.mask(only, "w")
        for step in range(self.steps if epochs is None else epochs):
            gradient = self._gradient_at(w, loss, extra_loss)
            g = gradient() if direction is None else direction.at(w.clone(), gradient, step)
            h = self.momentum * h + g
            if correction is not None:
                correction.add_to(h, w)
            w = torch.where(moves, w - self.lr * lr_scale * h, w)
        return {"w": w}

    def _gradient_at(self, w, loss, extra_loss):
        def gradient(offset=None):
            leaf = (w.clone() if offset is None else w + offset).requires_grad_()
            batch = Batch(torch.tensor([0]), torch.tensor([0]), leaf[None], leaf[None])
            value = 0.5 * (leaf - self.b).square().sum() if loss is None else loss(batch)
            if extra_loss is not None:
                value = value + extra_loss(batch)
            value.backward()
            return leaf.grad.clone()

        return gradient

    def representations(self, model):
        self.asked.append(model["w"].clone())
        return model["w"].clone()[None]

    logits = representations

    def gradient(self, model):
        return model["w"] - self.b


def play(method, *, b, samples, chosen, lr=0.5, steps=2, start=(0.0,), momentum=0.0):
    """Rounds of a method with the chosen clients of each; the server and a copy of all memories after each round.

    `steps` is one number for all clients, or one for each.
    """
    w = torch.tensor(start)
    server = Server(model={"w": w}, state=method.start(w), clients=len(b), lr=lr)
    memories: dict[int, Memory] = {}
    history = []
    for number, clients in enumerate(chosen, start=1):
        for exchange in range(method.exchanges):
            server = Server(server.model, server.state, number, exchange, len(b), lr)
            received = {name: v.float() for name, v in method.broadcast(server).items()}
            tally = Tally(method, Mean(), received, method.expected(server), keep_all=False)
            for k in clients:
                local = QuadraticLocal(
                    b[k],
                    round_number=number,
                    lr=lr,
                    steps=steps if isinstance(steps, int) else steps[k],
                    initial=w,
                    momentum=momentum,
                    exchange=exchange,
                )
                reply = method.client(received, memories.get(k, Memory()), local)
                memories[k] = Memory(reply.keep, number)
                tally.add(Upload(k, samples[k], reply.upload))
            server = method.aggregate(server, tally.combined({}, None)[0])
        history.append((server, dict(memories)))
    return history


def combined(method, uploads):
    """What `aggregate` gets of these uploads, the rule of combining being the mean."""
    tally = Tally(method, Mean(), {}, dict(uploads[0].vectors), keep_all=False)
    for upload in uploads:
        tally.add(upload)
    return tally.combined({}, None)[0]


def w_of(history):
    """The global parameters after each round, as plain numbers."""
    return [server.w.tolist() for server, _ in history]


def correction_of(method, received, memory, *, round_number, initial, exchange=0):
    """The correction that a method hands to local training."""
    local = QuadraticLocal(
        [0.0] * len(initial), round_number=round_number, lr=0.1, steps=1, initial=initial, exchange=exchange
    )
    method.client(received, memory, local)
    return local.corrections[0]


def added(correction, w_k):
    """What the correction adds to a gradient that is not zero."""
    before = torch.linspace(-1, 1, len(w_k))
    h = before.clone()
    correction.add_to(h, w_k.clone())
    return h - before


def gradient_of(objective, w_k):
    """Autograd's gradient of a written objective at w_k, in float64; it must not vanish."""
    leaf = w_k.double().requires_grad_()
    objective(leaf).backward()
    assert leaf.grad.norm() > 1e-3
    return leaf.grad.float()


def vectors(count, size=7, seed=0):
    """Some random vectors."""
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, size, generator=generator))
