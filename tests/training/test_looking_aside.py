"""What looking aside for a gradient leaves as it is: w_k, dropout's draws, statistics, and a plain step's bits."""

import copy
import itertools

import pytest
import torch
from tests.reference.setting import FEATURES, Setting, normalised
from tests.training import test_direction
from tests.training.directed import Look, batches, beside, both_trainers, by_name, everything, same, worked

from fedtrip.native.chain import NativeChain
from fedtrip.training import torch_trainer
from fedtrip.training.device import set_dropout_state
from fedtrip.training.flat_model import FlatModel
from fedtrip.training.trainer import Training

WAYS = {
    "plain": {},
    "adam": {"optimizer": "adam", "momentum": None, "lr": 0.01},
    "cut gradients": {"clip": "gradient:0.1"},
    "cut steps": {"clip": "0.1"},
    "noise": {"augment": "noise:0.2"},
    "kept momentum": {"keep_optimizer_state": True},
}


@both_trainers
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_everything", [False, True], ids=["plain", "everything"])
def test_the_gradient_as_it_is_gives_the_bits_of_a_plain_step(compute, way, is_everything):
    setting = everything(compute) if is_everything else Setting(compute=compute)
    plain, directed = (worked(setting, given, fields=WAYS[way]) for given in ({}, {"direction": Look()}))
    assert same(directed, plain)
    assert directed.memory.optimizer.keys() == plain.memory.optimizer.keys()
    assert all(torch.equal(v, plain.memory.optimizer[name]) for name, v in directed.memory.optimizer.items())
    assert directed.macs == plain.macs
    if way in ("cut gradients", "cut steps", "noise"):
        assert not same(plain, worked(setting))


@both_trainers
def test_looking_aside_changes_no_bit(compute):
    setting, kept = everything(compute), []
    size = sum(p.numel() for p in setting.module.parameters())

    def at(w_k, gradient, step):
        far = beside(size, 1e4, step)  # w_k + far − far would be far from w_k
        before, slope = w_k.clone(), gradient()
        own = slope.clone()
        for offset in (far, -far, far):
            gradient(offset)
        assert torch.equal(slope, own)  # a vector of its own
        assert torch.equal(gradient(), own)
        kept.append((w_k, before))
        return slope

    outcome = worked(setting, {"direction": Look(at)})
    assert same(outcome, worked(setting))
    assert len(kept) == 6
    assert all(torch.equal(w_k, before) for w_k, before in kept)  # what it keeps nobody changes
    assert not torch.equal(kept[0][0], kept[1][0])


@both_trainers
def test_a_direction_may_spoil_what_it_was_given(compute):
    setting = everything(compute)

    def at(w_k, gradient, step):  # noqa: ARG001
        w_k.fill_(7.0)
        gradient().fill_(7.0)
        gradient(torch.ones_like(w_k)).fill_(7.0)
        return gradient()

    assert same(worked(setting, {"direction": Look(at)}), worked(setting))


@both_trainers
def test_a_loss_of_the_methods_own_is_in_the_gradient(compute):
    def term(batch):
        return 0.3 * batch.logits.square().sum()

    setting = Setting(compute=compute, momentum=0.9)
    for given in ({"extra_loss": term}, {"loss": term}):
        directed = worked(setting, {**given, "direction": Look()})
        assert same(directed, worked(setting, given))
        assert not same(directed, worked(setting))


# BatchNorm


LOOKS = {
    "at w_k": ([None], None),
    "then beside": ([None, 1.0, 2.0], None),
    "beside first": ([1.0, None, 2.0], None),
    "twice at w_k": ([None, 1.0, None], None),
    "only beside": ([1.0, 2.0], 1.0),
    "once beside": ([2.0], 2.0),
}


@pytest.mark.parametrize("name", LOOKS)
def test_statistics_move_once_a_step_where_they_should(name):
    offsets, where = LOOKS[name]
    setting = normalised(local_epochs=2)
    size, seen = sum(p.numel() for p in setting.module.parameters()), []

    def at(w_k, gradient, step):  # noqa: ARG001
        seen.append(w_k)
        for offset in offsets:
            gradient(None if offset is None else beside(size, offset))
        return torch.ones(size)

    upload = worked(setting, {"direction": Look(at)}).upload
    module = copy.deepcopy(setting.module).double().train()
    for w_k, (x, _) in zip(seen, batches(setting), strict=True):
        parameters = by_name(setting, w_k if where is None else w_k + beside(size, where))
        for key, p in module.named_parameters():
            p.data.copy_(parameters[key])
        module(x)
    norm = module.body[1]
    wanted = torch.cat([norm.running_mean, norm.running_var]).float()
    torch.testing.assert_close(upload["buffers"], wanted, rtol=1e-5, atol=1e-6)
    assert upload["counters"].tolist() == [len(seen)] == [6]


def test_statistics_stay_where_nobody_looks():
    setting = normalised()
    size = sum(p.numel() for p in setting.module.parameters())
    upload = worked(setting, {"direction": Look(lambda *_: torch.ones(size), gradients=0)}).upload
    assert upload["buffers"].tolist() == [0.0] * 5 + [1.0] * 5
    assert upload["counters"].tolist() == [0]


# Cutting, and parts that stay


@both_trainers
def test_gradients_are_cut_or_what_comes_of_them(compute):
    setting = Setting(compute=compute, batch_size=100, momentum=0.0)
    bound, lengths = 0.05, []

    def at(w_k, gradient, step):  # noqa: ARG001
        here, there = gradient(), gradient(0.3 * torch.ones_like(w_k))
        lengths.append((float(here.norm()), float(there.norm())))
        return 3 * here + there

    start = worked(setting, {"direction": Look(lambda w_k, *_: torch.zeros_like(w_k))}).upload["w"]
    steps = {
        clip: worked(setting, {"direction": Look(at)}, fields={"clip": clip}).upload["w"] - start
        for clip in (f"gradient:{bound}", f"step:{bound}")
    }
    (of_gradients, of_steps) = lengths
    assert of_gradients == pytest.approx((bound, bound), rel=1e-5)
    assert min(of_steps) > 2 * bound
    assert 2 * bound < float(steps[f"gradient:{bound}"].norm()) / setting.lr <= 4.001 * bound
    assert float(steps[f"step:{bound}"].norm()) / setting.lr == pytest.approx(bound, rel=1e-3)


@both_trainers
def test_parts_that_stay_keep_their_bits_and_are_not_looked_at(compute):
    setting = Setting(compute=compute, momentum=0.9, weight_decay=0.1, local_epochs=2)
    given = {"only": ("head.weight", "head.bias")}
    frozen = torch.cat([torch.full((5 * FEATURES + 5,), True), torch.full((3 * 5 + 3,), False)])
    offset = beside(len(frozen))

    def at(w_k, gradient, step):  # noqa: ARG001
        for slope in (gradient(), gradient(offset)):
            assert (slope[frozen] == 0).all()
            assert (slope[~frozen] != 0).any()
        return gradient() + 1.0  # it may say what it likes of the others

    before = worked(setting, {"direction": Look(lambda w_k, *_: torch.zeros_like(w_k)), "only": ()}).upload["w"]
    outcome = worked(setting, {**given, "direction": Look(at)}, fields={"keep_optimizer_state": True})
    assert torch.equal(outcome.upload["w"][frozen], before[frozen])
    assert (outcome.upload["w"] != before)[~frozen].all()
    assert (outcome.memory.optimizer["1.momentum"][frozen] == 0).all()
    assert same(worked(setting, {**given, "direction": Look()}), worked(setting, given))


# Wrong trainers


def put_back_by_subtraction(self, offset=None, /):
    """w + e − e, which is not w in float32."""
    flat = self._flat
    set_dropout_state(self._dropout, flat.device)
    flat.set_statistics(self._before)
    if offset is not None:
        flat.w.add_(offset)
    flat.g.zero_()
    self._trainer._add_batch_gradient(self._training, self._x, self._rows, self._tap)
    if offset is not None:
        flat.w.sub_(offset)
    self._after = self._after if self._after and offset is not None else flat.statistics()
    return flat.g.clone()


OTHER_KEYS = itertools.count()
WRONG_TRAINERS = {
    "put back by subtraction": (
        torch_trainer._LookAside,
        "__call__",
        put_back_by_subtraction,
        lambda: test_looking_aside_changes_no_bit("torch"),
    ),
    "dropout drawn anew": (
        torch_trainer,
        "set_dropout_state",
        lambda *_: None,
        lambda: test_direction.test_it_is_autograds_of_the_same_samples_through_the_same_dropout("torch"),
    ),
    "statistics move in every look": (
        FlatModel,
        "set_statistics",
        lambda *_: None,
        lambda: test_statistics_move_once_a_step_where_they_should("then beside"),
    ),
    "statistics of the last look": (
        torch_trainer._LookAside,
        "end",
        lambda _self: None,
        lambda: test_statistics_move_once_a_step_where_they_should("then beside"),
    ),
    "another mask in every step of the engine": (
        NativeChain,
        "forward",
        lambda *given, right=NativeChain.forward, **more: right(*given, **{**more, "key": next(OTHER_KEYS)}),
        lambda: test_direction.test_it_is_autograds_of_the_same_samples_through_the_same_dropout("native"),
    ),
    "frozen parts seen": (
        Training,
        "hold",
        lambda *_: None,
        lambda: test_parts_that_stay_keep_their_bits_and_are_not_looked_at("native"),
    ),
}


@pytest.mark.parametrize("name", WRONG_TRAINERS)
def test_a_wrong_trainer_is_caught(name, monkeypatch):
    owner, attribute, wrong, test = WRONG_TRAINERS[name]
    test()
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        test()
