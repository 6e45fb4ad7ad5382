"""Clients whose parameters are a table, a row for each of their samples: its numbers are the samples' logits, and their
representations too. All samples are one batch, and the loss is ½‖w − b‖², so that a loss of a method's own can be
followed by hand."""

import torch
from tests.reference.quadratic import QuadraticLocal, combined
from tests.reference.setting import Net, Setting, made
from torch import nn

from fedtrip.methods.interface import Batch, CostSymbols, Memory, Server, Upload

COST = CostSymbols(K=5, M=4, n=20, w=100, FP=7.0, BP=14.0, C=3, r=6, h=40)


class TableLocal(QuadraticLocal):
    """The tools of such a client; `closed`: a method's loss is followed by its closed gradient, not by autograd."""

    def __init__(self, b, labels, counts=None, *, closed, **others):
        super().__init__([float(x) for row in b for x in row], **others)
        self.labels, self.closed = torch.tensor(labels), closed
        self.class_counts = torch.bincount(self.labels, minlength=len(b[0])) if counts is None else torch.tensor(counts)
        self.losses = []

    def logits(self, model):
        self.asked.append(model["w"].clone())
        return self._table(model["w"]).clone()

    representations = logits

    def _table(self, w):
        return w.view(len(self.labels), -1)

    def _gradient_at(self, w, loss, extra_loss):
        self.losses.append((loss, extra_loss))

        def gradient():
            leaf = w.clone().requires_grad_()
            seen = leaf.detach() if self.closed else leaf
            batch = Batch(torch.arange(len(self.labels)), self.labels, self._table(seen), self._table(seen))
            quadratic = 0.5 * (leaf - self.b).square().sum() if loss is None else 0 * leaf.sum()
            own = [one for one in (loss, extra_loss) if one is not None]
            (quadratic if self.closed else sum([one(batch) for one in own], quadratic)).backward()
            found = [slope for one in own if self.closed for slope in one.gradient(batch) if slope is not None]
            return sum((slope.reshape(-1) for slope in found), leaf.grad.clone())

        return gradient


def play_tables(method, *, b, labels, chosen, start, lr, steps, closed, counts=None, samples=None):
    """w after each round of the chosen clients, as tables of plain numbers."""
    w = torch.tensor([float(x) for row in start for x in row])
    samples, after = samples or [1] * len(b), []
    for number, clients in enumerate(chosen, 1):
        uploads = []
        for k in clients:
            local = TableLocal(
                b[k], labels[k], counts and counts[k], closed=closed, round_number=number, lr=lr, steps=steps, initial=w
            )
            reply = method.client({"w": w}, Memory(), local)
            assert reply.keep == {}
            uploads.append(Upload(k, samples[k], reply.upload))
        w = method.aggregate(Server({"w": w}, round=number, clients=len(b)), combined(method, uploads)).w
        after.append(w.view(len(start), -1).tolist())
    return after


def bits_of(method, setting, **options):
    """The digest of the model of a run."""
    return setting.run(method, **options).model_sha256


EVERYTHING = {
    "momentum": 0.9,
    "weight_decay": 0.01,
    "local_epochs": 2,
    "keep_optimizer_state": True,
    "module": made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2))),
}
SETTINGS = {"plain": Setting(), "torch": Setting(compute="torch"), "everything": Setting(**EVERYTHING)}
"""on the native chain, by torch, and by torch with all that a training can have"""
