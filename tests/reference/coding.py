"""What the tests of the codecs share: every rule, draws, a vector there and back, and what a server would refuse."""

import numpy as np
import torch

from fedtrip.families import UPLOAD_CODEC
from fedtrip.randomness import stream

FED_BACK = [
    "topk:0.1", "topk:0.01", "topk:1", "sign", {"name": "randk:0.1", "feedback": True},
    {"name": "eden:1", "feedback": True}, {"name": "eden:3", "feedback": True},
]  # fmt: skip
"""with error feedback"""
WITHOUT = [
    "int8", "int4", "int:3:16", "int:8:100", "qsgd:7", "qsgd:1", "qsgd:127:32", "randk:0.1", "randk:1",
    "eden:1", "eden:2", "eden:3", "eden:4",
    {"name": "topk:0.1", "feedback": False}, {"name": "sign", "feedback": False},
]  # fmt: skip
RULES = [*FED_BACK, *WITHOUT]
UNBIASED = ["int8", "int4", "int:3:16", "int:2:5", "qsgd:7", "qsgd:1", "qsgd:127:32", "randk:0.1", "randk:0.5"]


def streams(number=0):
    return lambda name: stream(0, f"codec {name}", number)


def vector(d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(d).astype(np.float32))


def payload_of(codec, x, number=0):
    return codec.pack(x, streams(number)("w"))


def there_and_back(codec, x, number=0):
    return codec.unpack(payload_of(codec, x, number), x.numel(), streams(number)("w"))


def is_refused(codec, x):
    """Whether a server would refuse what the codec makes of a vector: a reason is raised, or it is not finite."""
    like = {"w": torch.zeros(x.numel())}
    payload, _ = codec.encode({"w": x}, {}, {}, streams())
    try:
        decoded = codec.decode(payload, {}, like, streams())
    except ValueError:
        return True
    return not bool(torch.isfinite(decoded["w"]).all())


def made(rule):
    return UPLOAD_CODEC.make(rule)
