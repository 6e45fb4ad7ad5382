"""What the tests of the sharpness-aware methods share: quadratics on a ray, directions looked at, bits and costs."""

from dataclasses import dataclass

import pytest
import torch
from tests.reference.naive import CLOSE, apart, assert_follows, run_naive
from tests.reference.quadratic import QuadraticLocal, play
from tests.reference.setting import Net, Setting, made, normalised, samples
from tests.reference.watching import bytes_of, watched
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.methods.interface import CostSymbols, Memory, Method, make_method
from fedtrip.training.costs import pass_cost

COST = CostSymbols(K=7, M=4, n=25, w=10, FP=100.0, BP=200.0)
"""Letters for the costs of `attaching`."""
RAY = torch.tensor([0.6, 0.8])
"""Of length one, with unlike numbers: what is normalised number by number, or tensor by tensor, leaves it."""


def play_on_a_ray(method, b, chosen, samples=(1, 3, 2, 5)):
    """The global parameters after each round, as multiples of the ray, and the memories after the last one.

    Client k's loss is ½‖w − b_k·ray‖², so that whatever starts at 0 stays on the ray; η = ½, two steps a round.
    """
    history = play(method, b=[(x * RAY).tolist() for x in b], samples=samples, chosen=chosen, start=(0.0, 0.0))
    return [on_the_ray(server.w) for server, _ in history], history


def on_the_ray(vector):
    """How often the ray is in a vector; nothing may be left."""
    multiple = float(vector.double() @ RAY.double())
    assert (vector.double() - multiple * RAY.double()).norm() < 1e-5
    return multiple


class DirectedLocal(QuadraticLocal):
    """Keeps the directions that it was given."""

    def train(self, start, *given, direction=None, **more):
        self.__dict__.setdefault("directions", []).append(direction)
        return super().train(start, *given, direction=direction, **more)


def direction_of(method, received, memory):
    """The direction that a method hands to local training, before its first step; None if there is none."""
    local = DirectedLocal([0.0] * len(received["w"]), round_number=4, lr=0.1, steps=0, initial=received["w"])
    method.client(received, memory, local)
    return local.directions[0]


def bowl(v):
    """A loss that is no quadratic, with a slope everywhere."""
    far = torch.arange(1, len(v) + 1, dtype=v.dtype)
    return torch.log(torch.cosh(far * v - 1)).sum() + 0.1 * (v * v.roll(1)).square().sum() + v.sum() / 3


def slope(v):
    """Its gradient, by autograd in float64."""
    leaf = v.double().detach().requires_grad_()
    bowl(leaf).backward()
    return leaf.grad


def looks_from(w_k):
    """`gradient` of a step at w_k on that loss."""

    def gradient(offset=None):
        return slope(w_k if offset is None else w_k + offset).float()

    return gradient


def uphill(rho, v):
    """ρ·v/(‖v‖ + 1e-7) in float64."""
    return rho * v.double() / (v.double().norm() + 1e-7)


def assert_follows_sharply(setting, method, **options):
    """The library's run equals the reference's, and is neither FedAvg's nor the one with ρ = 0."""
    assert_follows(setting, method, **options)
    sharp, flat = (run_naive(setting, method, **more)[0] for more in (options, {**options, "rho": 0.0}))
    assert apart(flat.float().state_dict(), sharp) > 1000 * CLOSE


@dataclass(frozen=True)
class UniformFedAvg(Method):
    """FedAvg with a uniform mean"""

    title = "uniform"
    weighting = "uniform"


def everything(compute="auto", **changes):
    """Dropout, weight decay, several epochs and, on torch, BatchNorm."""
    norms = (nn.BatchNorm1d(5),) if compute == "torch" else ()
    module = made(lambda: Net(*norms, nn.ReLU(), nn.Dropout(0.2)))
    pairs = samples((16, 24, 8, 32, 14))
    return Setting(
        module=module, compute=compute, weight_decay=0.01, local_epochs=2, pairs=pairs, batch_size=8, **changes
    )


SETTINGS = {
    "plain": Setting(),
    "momentum": Setting(momentum=0.9, keep_optimizer_state=True),
    "native": everything("native"),
    "torch": everything("torch"),
}
settings = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
plain_settings = pytest.mark.parametrize(
    "setting",
    [s for s in SETTINGS.values() if s.momentum == 0],
    ids=[n for n, s in SETTINGS.items() if s.momentum == 0],
)


def bits(setting, method, **options):
    """The digest of a run's model; a method may be an object."""
    if not isinstance(method, Method):
        return setting.run(method, **options).model_sha256
    described = setting.experiment("fedavg").but(method=method)
    return fedtrip.run(described, model=setting.module, data=setting.data, workers=1).model_sha256


def check_costs(method, *, passes, operations, server=0, each=0, down=0, up=0, numbers=0, keeps=0, **options):
    """Bytes, memory and multiply-adds of a run with BatchNorm, against FedAvg's.

    `passes` and `operations` of a step (the latter of a newcomer and of others), `server` and `each` the server's for
    every parameter, once and for each upload; `down`, `up` and `keeps` in vectors like w, `numbers` single ones up.
    """
    setting = normalised(rounds=4)
    newcomers, others = operations if isinstance(operations, tuple) else (operations, operations)
    _, records, history = watched(setting, method, **options)
    _, usual, _ = watched(setting, "fedavg")
    w, model = bytes_of(setting)
    returned, seen = 0, set()
    for record, plain in zip(records, usual, strict=True):
        assert record.bytes_down == 2 * (model + down * w)
        assert record.bytes_up == 2 * (model + up * w + 4 * numbers)
        assert record.client_memory == keeps * w
        n = {k: len(setting.pairs[k][1]) for k in record.clients}
        more = (passes - 1) * sum(n.values()) * pass_cost(setting.module, (6,)).training
        for k, samples_k in n.items():
            more += -(-samples_k // setting.batch_size) * (others if k in seen else newcomers) * (w // 4)
        averaged = 2 * (up * (w // 4) + numbers)
        assert record.macs - plain.macs == more + averaged + (server + 2 * each) * (w // 4)
        returned += len(seen & n.keys())
        seen |= n.keys()
    assert returned > 2
    declared = make_method(method, options, model="cnn", dataset="mnist").kept(history[0][0])
    kept = next(memory for memory in history[-1][1] if not memory.is_new)
    assert {name: v.shape for name, v in declared.items()} == {name: v.shape for name, v in kept.vectors.items()}


def check_refused(method, option, value):
    with pytest.raises(UserError, match=f"'{method}': option '{option}' is {value!r}"):
        make_method(method, {option: value}, model="cnn", dataset="mnist")


def keeping(**vectors):
    """A memory of an earlier round."""
    return Memory(vectors, last_round=2)
