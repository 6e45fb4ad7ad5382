"""FedPer: body and head are trained together; the body is averaged by n_k, each head stays with its client."""

import pytest
import torch
from tests.reference.naive_personal_methods import COST, assert_follows_personally, play_apart, run_library, same
from tests.reference.setting import Setting, made, normalised
from tests.reference.watching import watched
from torch import nn

from fedtrip.errors import UserError
from fedtrip.methods.fedper import FedPer

QUADRATICS = {"b": [[4.0, 4.0], [8.0, 8.0], [-4.0, -4.0]], "samples": [1, 3, 2], "chosen": [(0, 1), (0, 2)]}


def test_two_rounds_by_hand():
    # η = ½, two steps: w ← w/4 + ¾b. The first number, the body, is FedAvg's: 5.25, then 0.3125. Heads: client 0 (b 4)
    # has 3, then 3.75; client 1 (b 8) 6; client 2 (b −4), new in round 2, goes from 0 to −3.
    history = play_apart(FedPer(), **QUADRATICS)
    assert history[0] == ([5.25, 0.0], {0: [5.25, 3.0], 1: [5.25, 6.0]})
    assert history[1] == ([0.3125, 0.0], {0: [0.3125, 3.75], 1: [0.3125, 6.0], 2: [0.3125, -3.0]})


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(momentum, weight_decay):
    assert_follows_personally(Setting(momentum=momentum, weight_decay=weight_decay, local_epochs=2), "fedper")


def test_batch_norm_belongs_to_the_body():
    assert_follows_personally(normalised(rounds=4, weight_decay=0.02), "fedper")


class NoHead(FedPer):
    def stays(self, layout):  # noqa: ARG002
        return frozenset()


class AllHead(FedPer):
    def stays(self, layout):
        return frozenset(layout.parts)


def test_without_a_head_it_is_fedavg_and_with_nothing_else_local_only_to_the_bit():
    setting = normalised(rounds=4, momentum=0.9)
    assert same(run_library(setting, NoHead())[0], run_library(setting, "fedavg")[0])
    all_head, local = run_library(setting, AllHead()), run_library(setting, "local")
    assert same(all_head[0], local[0])
    assert all(map(same, all_head[1], local[1]))
    assert not same(run_library(setting, "fedper")[0], run_library(setting, "fedavg")[0])


def test_the_head_does_not_travel():
    setting = normalised(rounds=3)
    _, records, _ = watched(setting, "fedper")
    model, head = sum(v.nbytes for v in setting.module.state_dict().values()), 4 * 18
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * (model - head)
        assert record.client_memory == head
    assert FedPer().attaching(COST).flops == 0


def test_the_head_may_be_named():
    setting = Setting(rounds=3)
    start = setting.module.state_dict()
    model, _, _ = run_library(setting, "fedper", head="body")
    assert torch.equal(model["body.0.weight"], start["body.0.weight"])
    assert not torch.equal(model["head.weight"], start["head.weight"])
    assert same(model, run_library(setting, "fedper", head="body.0")[0])
    with pytest.raises(UserError, match="layer 'hed' is unknown; did you mean 'head"):
        setting.run("fedper", head="hed")


def convolution():
    return nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 6), nn.Flatten())


@pytest.mark.parametrize("method", ["fedper", "lg-fedavg", "fedrep", "fedbabu"])
@pytest.mark.parametrize(
    ("module", "said"),
    [(convolution, "no fully connected layer, so it has no head"), (lambda: nn.Linear(6, 3), "all that the model has")],
)
def test_a_model_without_head_or_body_is_refused_before_anything_is_computed(method, module, said, monkeypatch):
    monkeypatch.setattr("fedtrip.training.workbench.Workbench.client", lambda *_: pytest.fail("it has begun"))
    with pytest.raises(UserError, match=said):
        Setting(module=made(module)).run(method)


def test_heads_that_are_averaged_are_caught(monkeypatch):
    monkeypatch.setattr(FedPer, "stays", NoHead.stays)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(0.0, 0.0)
