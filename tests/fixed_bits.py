"""Digests of what is drawn or computed from scalars; `tests/test_every_cpu.py` has them made by other processes."""

import hashlib
import json
import math
from itertools import product

import numpy as np
import torch

from fedtrip import fixed_math
from fedtrip.attacks._draws import draw
from fedtrip.data.normalisation import measure
from fedtrip.families import LR_SCHEDULE, SELECT, UPLOAD_CODEC
from fedtrip.methods.fedtrip_auto import annealed_xi
from fedtrip.models import MODELS, build_model, usual_samples
from fedtrip.optimizers.sgd import Sgd
from fedtrip.partitions._draws import _log_exponentials
from fedtrip.partitions.dirichlet import Dirichlet
from fedtrip.partitions.interface import make_partition
from fedtrip.randomness import gammas, normals, permutation, stream, uniforms
from fedtrip.vectors import state_sha256

ROUNDS, CLIENTS = 60, 20
LABELS = torch.arange(5000) % 10


def shares(spec, kind):
    made = make_partition(
        spec, draw=kind, labels=LABELS, classes=10, clients=CLIENTS, samples_per_client=100, seed=1
    )  # fmt: skip
    return [made.share(client).tolist() for client in range(CLIENTS)]


def selections(rule):
    select = SELECT.make(rule)
    return [select(stream(1, "selection", t), t, 1000, 10, lambda client: client % 7) for t in range(ROUNDS)]


def log_weights(alpha):
    """The bits of the classes' weights: a share shows a changed bit only where it turns an order."""
    return [Dirichlet(alpha)._of_client(client, 10, 1).tolist() for client in range(300)]


def measured(channels, kind):
    values = uniforms(stream(1, "pixels"), 40_000 * channels).reshape(-1, channels, 5, 8)
    return measure(torch.from_numpy((values * 255).astype(np.uint8) if kind == "uint8" else values.astype(np.float32)))


def coded(rule):
    vector = torch.from_numpy(normals(stream(1, "vector"), 5000).astype(np.float32))
    codec = UPLOAD_CODEC.make(rule)
    payload = codec.pack(vector, stream(1, "codec"))
    return payload.tolist(), codec.unpack(payload, 5000, stream(1, "codec")).tolist()


def everything():
    """Name → what is drawn or computed, of which every bit counts."""
    rules = ({"name": "step:2", "gamma": 0.997}, "exponential:0.998", "cosine:0.1", "cosine")
    positive = uniforms(stream(1, "numbers"), 20_000) * 50
    return {
        **{f"partition {s} {d}": shares(s, d)
           for s, d in product(("iid", "dirichlet:0.1", "orthogonal:5"), ("overlap", "nested", "disjoint"))},
        **{f"weights of dirichlet:{alpha}": log_weights(alpha) for alpha in (0.1, 0.5, 5.0)},
        "keys of samples": [_log_exponentials(5000, 1, client).tolist() for client in range(5)],
        **{f"selection {rule}": selections(rule) for rule in ("uniform", "weighted", "available:0.1")},
        "orders of batches": [permutation(stream(1, "batches", k), n).tolist() for k, n in enumerate((7, 600, 60_000))],
        "faults": [draw(1, t, client) for t in range(ROUNDS) for client in range(CLIENTS)],
        **{f"codec {rule}": coded(rule)
           for rule in ("int8", "int4", "int:3:64", "qsgd:7:512", "sign", "topk:0.01", "randk:0.01", "eden:1",
                        "eden:3")},
        "normals": normals(stream(1, "normals"), 20_000).tolist(),
        "gammas": gammas(stream(1, "gammas"), 1.5, 20_000).tolist(),
        **{f"initial {name}": state_sha256(build_model(name, *usual_samples(name), 1).state_dict()) for name in MODELS},
        **{f"normalisation {c} {k}": measured(c, k) for c, k in product((1, 3), ("uint8", "float32"))},
        **{f"schedule {r}": [LR_SCHEDULE.make(r)(t, 5000) for t in range(1, 5001)] for r in rules},
        "annealed xi": [annealed_xi(t, gap, tau) for t, gap, tau in product(range(1, 300), (1, 3), (7.0, 10.0))],
        "travel": [Sgd(beta).travel(0.01, steps, kept=False) for beta in (0.5, 0.9, 0.99) for steps in range(1, 3000)],
        "log": fixed_math.log(positive).tolist(),
        "exp": fixed_math.exp(positive).tolist(),
        "cos": fixed_math.cos_pi(positive).tolist(),
    }  # fmt: skip


def digests():
    """Name → SHA-256 of it."""
    return {name: hashlib.sha256(json.dumps(what).encode()).hexdigest() for name, what in everything().items()}


def of_libraries():
    """What NumPy, torch and libm make of such numbers: that it differs shows that the processes compute differently."""
    positive = uniforms(stream(1, "numbers"), 20_000) * 50
    torch.manual_seed(1)
    values = {
        "numpy's log": np.log(positive).tolist(),
        "torch's uniform": torch.empty(5000).uniform_(-0.3, 0.3).tolist(),
        "libm's exp": [math.exp(-x) for x in positive],
        "libm's cos": [math.cos(x) for x in positive],
        "libm's pow": [0.998**x for x in positive],
    }
    return {name: hashlib.sha256(json.dumps(what).encode()).hexdigest() for name, what in values.items()}


if __name__ == "__main__":
    print(json.dumps({"ours": digests(), "libraries": of_libraries()}))
