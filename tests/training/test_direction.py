"""A direction of a method's own: what `gradient` gives it, what the optimizer gets of it, and what it costs."""

import copy

import pytest
import torch
from tests.reference.setting import FEATURES, Setting, made
from tests.training.directed import Look, batches, beside, both_trainers, by_name, flat_of, same, worked
from torch import nn
from torch.nn import functional

from fedtrip.errors import UserError
from fedtrip.families import METHOD
from fedtrip.methods.interface import Affine
from fedtrip.training.client import ClientLocal
from fedtrip.training.costs import pass_cost

# What the optimizer gets


@both_trainers
@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_the_optimizer_gets_h_and_decays_at_w_k(compute, momentum):
    setting = Setting(compute=compute, momentum=momentum, weight_decay=0.2, local_epochs=2)
    size, seen = sum(p.numel() for p in setting.module.parameters()), []

    def at(w_k, gradient, step):
        seen.append(w_k)
        gradient(beside(size, 100.0))  # where it looks is not where it decays
        return beside(size, seed=step)

    outcome = worked(setting, {"direction": Look(at)})
    assert len(seen) == 6
    w, m = seen[0].double(), torch.zeros(size, dtype=torch.float64)
    for step, w_k in enumerate([*seen[1:], outcome.upload["w"]]):
        m = momentum * m + beside(size, seed=step).double() + 0.2 * w
        w = w - 0.1 * m
        torch.testing.assert_close(w_k.double(), w, rtol=1e-5, atol=1e-6)


# What `gradient` gives


@both_trainers
@pytest.mark.parametrize("offset", [None, 0.1, 2.0])
def test_a_gradient_is_autograds_at_w_k_and_beside_it(compute, offset):
    setting = Setting(compute=compute, local_epochs=2, momentum=0.5)
    size, seen = sum(p.numel() for p in setting.module.parameters()), []

    def at(w_k, gradient, step):
        where = None if offset is None else beside(size, offset, step)
        seen.append((w_k if where is None else w_k + where, gradient(where)))
        return gradient()

    worked(setting, {"direction": Look(at)})
    assert len(seen) == 6
    module = copy.deepcopy(setting.module).double()
    for (w, found), (x, y) in zip(seen, batches(setting), strict=True):
        module.load_state_dict(by_name(setting, w))
        module.zero_grad()
        functional.cross_entropy(module(x), y).backward()
        wanted = flat_of(setting, {name: p.grad for name, p in module.named_parameters()})
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
        assert wanted.norm() > 1e-3


def dropping(**changes):
    """Dropout on the inputs, then one layer. Of a batch of one the gradient shows which inputs were dropped."""
    module = made(lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(FEATURES, 3)))
    return Setting(module=module, batch_size=1, **changes)


@both_trainers
def test_it_is_autograds_of_the_same_samples_through_the_same_dropout(compute):
    setting = dropping(compute=compute, local_epochs=2)
    size, seen = 3 * FEATURES + 3, []

    def at(w_k, gradient, step):
        offset = beside(size, seed=step)
        first, aside, again, plain = gradient(-2 * offset), gradient(offset), gradient(offset), gradient()
        assert torch.equal(aside, again)
        seen.append((w_k + offset, first, aside, plain))
        return plain

    outcome = worked(setting, {"direction": Look(at)})
    masks = []
    for (w, *found), (x, y) in zip(seen, batches(setting), strict=True):
        columns = [by_name(setting, g)["1.weight"].abs().sum(0) > 0 for g in found]
        assert all(torch.equal(column, columns[0]) for column in columns)  # one mask for all looks of a step
        masks.append(columns[0])
        head = nn.Linear(FEATURES, 3).double()
        head.load_state_dict({name.removeprefix("1."): value for name, value in by_name(setting, w).items()})
        functional.cross_entropy(head(x * columns[0] / 0.5), y).backward()
        wanted = flat_of(setting, {"1.weight": head.weight.grad, "1.bias": head.bias.grad})
        torch.testing.assert_close(found[1], wanted, rtol=1e-4, atol=1e-6)
    assert len({tuple(mask.tolist()) for mask in masks}) > 5  # and another one for another step
    assert 0.3 < torch.stack(masks).float().mean() < 0.7
    assert same(outcome, worked(setting))  # the masks of plain steps


# Costs


@both_trainers
@pytest.mark.parametrize(("gradients", "operations"), [(0, 0), (1, 0), (1, 4), (3, 5)])
def test_every_gradient_and_operation_is_counted(compute, gradients, operations):
    setting = Setting(compute=compute, weight_decay=0.1, local_epochs=2)
    size, calls = sum(p.numel() for p in setting.module.parameters()), []

    def at(w_k, gradient, step):  # noqa: ARG001
        for _ in range(gradients):
            calls.append(gradient(0.1 * w_k))
        return torch.zeros_like(w_k)

    macs = worked(setting, {"direction": Look(at, gradients=gradients, operations=operations)}).macs
    passes = pass_cost(setting.module, (FEATURES,)).training
    assert macs == 2 * 10 * gradients * passes + 6 * (1 + 1 + operations) * size
    assert len(calls) == 6 * gradients


@pytest.mark.parametrize("method", METHOD.names())
def test_what_every_method_says_of_its_gradients_is_what_it_asks_for(method, monkeypatch):
    # A run of each registered method, newcomers and others: the counters believe what a direction says.
    asked = []

    def train(self, start, *arguments, direction=None, **more):
        if direction is None:
            return right(self, start, *arguments, **more)

        def at(w_k, gradient, step):
            calls = [0]

            def counting(offset=None):
                calls[0] += 1
                return gradient(offset)

            h = direction.at(w_k, counting, step)
            asked.append((calls[0], direction.gradients()))
            return h

        watched = Look(at, gradients=direction.gradients(), operations=direction.operations())
        return right(self, start, *arguments, direction=watched, **more)

    right = ClientLocal.train
    monkeypatch.setattr(ClientLocal, "train", train)
    Setting(rounds=3, per_round=3, lr=0.01).run(method)
    assert all(calls == said for calls, said in asked)
    assert asked or method not in DIRECTED


DIRECTED = {
    "pfedme", "apfl", "fedsam", "mofedsam", "fedspeed", "fedsmoo", "fedlesam", "fedlesam-s", "fedlesam-d",
}  # fmt: skip
"""Methods that surely have a direction of their own."""


# What is refused


@both_trainers
def test_a_correction_and_a_direction_are_refused(compute):
    with pytest.raises(UserError, match="a correction and a direction; accepted: one of the two"):
        worked(Setting(compute=compute), {"correction": Affine(0.1), "direction": Look()})


WRONG = [torch.tensor(0.5), torch.ones(1), torch.ones(7), torch.ones(53, 1), torch.ones(53).long()]


@both_trainers
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.dtype} {tuple(wrong.shape)}")
def test_a_vector_that_is_none_of_the_models_is_refused(compute, wrong):
    # One number would be spread over all parameters, and nobody would see it.
    setting = Setting(compute=compute)
    with pytest.raises(UserError, match=r"looks aside by .*; accepted: 53 numbers"):
        worked(setting, {"direction": Look(lambda _w_k, gradient, _step: gradient(wrong))})
    with pytest.raises(UserError, match=r"gives a direction of .*; accepted: 53 numbers"):
        worked(setting, {"direction": Look(lambda *_: wrong)})


@both_trainers
def test_float64_is_rounded_once(compute):
    setting = Setting(compute=compute)
    offset, h = beside(53).double() / 3, beside(53, seed=5).double() / 3
    precise = worked(setting, {"direction": Look(lambda _w_k, gradient, _step: gradient(offset) + h)})
    rounded = worked(
        setting, {"direction": Look(lambda _w_k, gradient, _step: (gradient(offset.float()).double() + h).float())}
    )
    assert same(precise, rounded)
