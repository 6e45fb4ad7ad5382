"""Digests of what every rule's arithmetic makes of a few vectors. `python -m tests.reference.vector_bits` prints them.

No model is trained: a client's gradients, outputs and representations are given numbers.
"""

import json
from functools import partial

import numpy as np
import torch
from torch import nn

from fedtrip.attacks.alie import hidden_zeta
from fedtrip.attacks.interface import View
from fedtrip.families import ATTACK, COMBINE, METHOD, OPTIMIZER, SERVER_OPTIMIZER, UPLOAD_CODEC
from fedtrip.layout import Layout, Part
from fedtrip.methods.interface import Batch, Hidden, Memory, Server, Upload, make_method
from fedtrip.optimizers._clip import read_clip
from fedtrip.rounds.tally import Tally
from fedtrip.tasks.binary import Binary
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.multilabel import Multilabel
from fedtrip.tasks.regression import Regression
from fedtrip.vectors import state_sha256

SIZE, CLIENTS, ROUNDS = 1003, 5, 4
SAMPLES, FEATURES, CLASSES, UNITS = 9, 37, 11, 13
PARAMETERS = {
    "topk": "topk:0.1", "randk": "randk:0.1", "trimmed": "trimmed:0.25", "krum": "krum:0", "multikrum": "multikrum:0:2",
    "centered": "centered:0.5:2", "clip": "clip:0.5",
    "private": {"name": "private:0.5", "clip": 0.5, "adaptive": True, "bit_noise": 2.0, "planned": 5},
}  # fmt: skip
STUDY = [
    f"fedtrip.paper.study_rules:{name}"
    for name in ("AnnealedXi", "ConstantXi", "GapXi", "InverseGapNorm", "GapNorm")
]  # fmt: skip
RULES = {
    **{f"method {name}": {"method": name} for name in (*METHOD.names(), *STUDY)},
    "method scaffold, option I": {"method": "scaffold", "option": "I"},
    "method apfl, adaptive": {"method": "apfl", "adaptive": True},
    "method fedinit, updates": {"method": "fedinit", "average": "updates"},
    "method fedspeed, mixed": {"method": "fedspeed", "gamma": 0.4},
    **{f"combine {name}": {"combine": PARAMETERS.get(name, name)} for name in COMBINE.names()},
    **{f"codec {name}": {"codec": PARAMETERS.get(name, name)} for name in UPLOAD_CODEC.names()},
    "codec eden, 4 bits": {"codec": {"name": "eden:4", "feedback": True}},
    "codec qsgd, buckets": {"codec": "qsgd:5:64"},
    **{f"server {name}": {"server_optimizer": name} for name in SERVER_OPTIMIZER.names()},
}


def numbers(*keys, shape=(SIZE,)):
    """float32 numbers of many sizes, from raw bits alone."""
    raw = np.random.PCG64([len(keys), *keys]).random_raw(int(np.prod(shape)))
    whole = (raw >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    return torch.from_numpy((whole / (1 << (raw & np.uint64(7)).astype(np.int64))).astype(np.float32).reshape(shape))


class GivenLocal:
    """The tools of a client whose gradients, outputs and representations are given."""

    lr, steps, travel = 0.05, 3, 0.21
    labels = torch.arange(SAMPLES) % CLASSES
    class_counts = torch.bincount(labels, minlength=CLASSES)
    layout = Layout(
        {
            "body.weight": Part("w", 0, SIZE - 100, (SIZE - 100,), nn.Conv1d),
            "head.weight": Part("w", SIZE - 100, SIZE, (100,), nn.Linear),
        }
    )

    def __init__(self, client, t, exchange):
        self.client, self.round, self.exchange = client, t, exchange

    def train(self, start, correction=None, extra_loss=None, *, loss=None, direction=None, only=None, lr_scale=1.0,
              epochs=None, order="batches"):  # fmt: skip
        w = start["w"].clone()
        moves = torch.ones(SIZE, dtype=torch.bool) if only is None else self.layout.mask(only, "w")
        for step in range(self.steps if epochs is None else epochs):
            key = (1, self.client, self.round, step, *order.encode()[:2])
            h = numbers(*key)
            for own in (one for one in (loss, extra_loss) if one is not None):
                rows = torch.tensor([4, 0, 8, step % SAMPLES])
                outputs, z = numbers(*key, 1, shape=(4, CLASSES)), numbers(*key, 2, shape=(4, FEATURES))
                hidden = Hidden(z, numbers(*key, 3, shape=(UNITS, FEATURES)), numbers(*key, 4, shape=(UNITS,)))
                for slope in own.gradient(Batch(rows, self.labels[rows], outputs, z, hidden)):
                    if slope is not None:
                        h[: slope.numel()] += slope.reshape(-1)
            if direction is not None:
                h = direction.at(w.clone(), partial(self._beside, h, w), step)
            if correction is not None:
                correction.add_to(h, w)
            w = torch.where(moves, w - self.lr * lr_scale * h, w)
        return {"w": w}

    def travel_with(self, prox):
        return self.travel - 0.01 * prox

    def _beside(self, h, w, offset=None):
        """The given gradient at w + offset."""
        return h + 0.3 * (w if offset is None else w + offset)

    def representations(self, model):
        return model["w"][: SAMPLES * FEATURES].view(SAMPLES, FEATURES)

    def logits(self, model):
        return model["w"][: SAMPLES * CLASSES].view(SAMPLES, CLASSES)

    def gradient(self, model):
        return 0.3 * model["w"] - numbers(2, self.client)

    @property
    def initial(self):
        return numbers(0)


def played(method="fedavg", combine="mean", codec="none", server_optimizer="none", **options):
    """The digest of everything after some rounds: the model, the server's state, the clients' memories."""
    method = make_method(method, options, model="mlp", dataset="mnist")
    combine, codec = COMBINE.make(combine), UPLOAD_CODEC.make(codec)
    step, w = SERVER_OPTIMIZER.make(server_optimizer), numbers(0)
    state, memories, combining = step.start(w), {}, combine.start({"w": w})
    server = Server(model={"w": w}, state=method.start(w), clients=CLIENTS, lr=0.05)
    for t in range(1, ROUNDS + 1):
        before = server.w.double()
        for exchange in range(method.exchanges):
            server = Server(server.model, server.state, t, exchange, CLIENTS, 0.05)
            received = {name: v.float() for name, v in method.broadcast(server).items()}
            expected = method.expected(server)
            streams = partial(_stream, t, exchange)
            tally = Tally(method, combine, received, expected, keep_all=False)
            for k in (k for k in range(CLIENTS) if (k + t) % 3):  # not every round: gaps of 1 and 2
                memory = memories.get(k, Memory())
                reply = method.client(received, memory, GivenLocal(k, t, exchange))
                payload, lost = codec.encode(reply.upload, received, memory.codec, streams)
                memories[k] = Memory(reply.keep, t, codec=lost)
                tally.add(Upload(k, 10 + k, codec.decode(payload, received, expected, streams)))
            uploads, _, combining = tally.combined(combining, _stream(t, exchange, "combining"))
            server = method.aggregate(server, uploads)
        w, state = step(before, server.w.double(), state)
        server = server.updated(w=w)
    kept = {f"{k} {name}": v for k, memory in memories.items() for name, v in memory.packed().items()}
    kept |= {f"{k} own": method.personal_model(server.model, memory)["w"] for k, memory in memories.items()}
    return state_sha256({**server.model, **server.state, **kept, **{f"step {name}": v for name, v in state.items()}})


def _stream(t, exchange, _name):
    return np.random.default_rng([t, exchange])


def stepped(name):
    """A local optimizer's vectors after some steps, with a correction and weight decay."""
    optimizer, w = OPTIMIZER.make(name), numbers(0)
    state = optimizer.start(w)
    for step in range(3):
        optimizer.step(w, numbers(3, step), state, lr=0.01, linear=0.3, decay=0.02)
    return state_sha256({"w": w, **state})


def mean_of_rows():
    weights = torch.tensor([0.3, 0.5, 0.2], dtype=torch.float64)
    return state_sha256(COMBINE.make("mean")({"w": numbers(5, shape=(3, SIZE)).double() / 3}, weights, {}, None)[0])


def lied(name):
    """What an attacker makes up."""
    attack, honest = ATTACK.make(f"{name}:0.5"), numbers(11, shape=(4, SIZE)).double() / 3
    made = attack.crafted(numbers(12).double() / 3, View(6, 2, honest), np.random.Generator(np.random.PCG64(5)))
    return state_sha256({"made": made})


def clipped():
    vector = numbers(4)
    read_clip("0.7").cut(vector)
    return state_sha256({"vector": vector})


TASKS = {
    "regression": (Regression(), numbers(8, shape=(SAMPLES, 2))),
    "binary": (Binary(pos_weight=1.7), torch.arange(SAMPLES) % 2),
    "multilabel": (Multilabel(), numbers(9, shape=(SAMPLES, CLASSES)) > 0),
    "classification": (
        Classification(
            class_weights=tuple(1 + k / 7 for k in range(CLASSES)), label_smoothing=0.1, focal_gamma=1.3, score="auc"
        ),
        GivenLocal.labels,
    ),
}


def scored(name):
    """The digest of a task's gradient at some outputs, and of its scores."""
    task, y = TASKS[name]
    outputs = 4 * numbers(10, shape=(SAMPLES, *task.output_shape(CLASSES, y)))
    gradient = task.summed_gradient(outputs, y)
    return [state_sha256({"gradient": gradient}), task.scores(task.sums(outputs, y), SAMPLES)]


def digests():
    """A digest for each rule, and what is not the same everywhere: torch's fused multiply-add and its sum."""
    x, y = numbers(6), numbers(7)
    return {
        **{name: played(**rules) for name, rules in RULES.items()},
        **{f"optimizer {name}": stepped(name) for name in OPTIMIZER.names() if name != "sgd"},  # torch's own kernel
        "mean of rows": mean_of_rows(),
        "clip": clipped(),
        **{f"attack {name}": lied(name) for name in ATTACK.names() if ATTACK.find(name).crafts},
        "quantiles": [hidden_zeta(n, m) for n in range(1, 40) for m in range(1, n)],
        **{f"task {name}": scored(name) for name in TASKS},
        "control": state_sha256({"fused": torch.add(x, y, alpha=0.4)}),
        "torch": torch.backends.cpu.get_cpu_capability(),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(digests()))
