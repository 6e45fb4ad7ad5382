"""Ditto: FedAvg, and beside it v_k by steps g(v_k) + λ(v_k − w), w as received; v_k is the client's own model."""

from dataclasses import dataclass

import pytest
import torch
from tests.reference.naive_personal_methods import COST, assert_follows_personally, run_library, same
from tests.reference.quadratic import QuadraticLocal, added, gradient_of, play, vectors, w_of
from tests.reference.setting import Net, Setting, made, normalised
from tests.reference.watching import watched
from torch import nn

from fedtrip.methods.ditto import Ditto
from fedtrip.methods.interface import Affine, Memory, Reply
from fedtrip.methods.local import LocalOnly


def test_two_rounds_by_hand():
    # The global model is FedAvg's: 5.25, then 0.3125. λ = ½, η = ½: v ← v − ½(v − b + ½(v − w)) = v/4 + b/2 + w/4.
    # Round 1, w = 0: client 0 (b 4) has v = 2, 2.5; client 1 (b 8) 4, 5. Round 2, w = 5.25: client 0 goes on from 2.5:
    # 3.9375, 4.296875; client 2 (b −4) is new, from 5.25: 0.625, −0.53125.
    history = play(Ditto(lam=0.5), b=[[4.0], [8.0], [-4.0]], samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert w_of(history) == [[5.25], [0.3125]]
    own = [{k: float(memory["w"]) for k, memory in memories.items()} for _, memories in history]
    assert own == [{0: 2.5, 1: 5.0}, {0: 4.296875, 1: 5.0, 2: -0.53125}]


@pytest.mark.parametrize("new", [True, False])
def test_the_pull_is_the_gradient_of_the_written_term(new):
    w, v, at, b = vectors(4)
    memory = Memory() if new else Memory({"w": v}, last_round=1)
    local = QuadraticLocal(b.tolist(), round_number=3, lr=0.1, steps=1, initial=w)
    Ditto(lam=0.7).client({"w": w}, memory, local)
    assert local.corrections[0] is None
    assert local.orders == ["batches", "ditto"]

    def term(x):
        return 0.35 * (x - w.double()).square().sum()  # w as received: not v_k's start, and not the moving w_k

    torch.testing.assert_close(added(local.corrections[1], at), gradient_of(term, at), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(momentum, weight_decay):
    setting = Setting(momentum=momentum, weight_decay=weight_decay, lr=0.05, local_epochs=2)
    assert_follows_personally(setting, "ditto", lam=0.8)


def test_own_models_have_their_own_statistics():
    assert_follows_personally(normalised(rounds=4, weight_decay=0.02), "ditto")


@pytest.mark.parametrize("lam", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("everything", [False, True])
def test_the_global_model_is_fedavgs_to_the_bit(lam, everything):
    setting = Setting(momentum=0.9)
    if everything:
        module = made(lambda: Net(nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2)))
        setting = setting.but(module=module, weight_decay=0.01, local_epochs=2, keep_optimizer_state=True)
    assert setting.run("ditto", lam=lam).model_sha256 == setting.run("fedavg").model_sha256


@dataclass(frozen=True)
class InTheOtherOrder(LocalOnly):
    """local only, in the order of batches that Ditto's own models have"""

    def client(self, received, memory, local):  # noqa: ARG002
        return Reply(local.train(received, order="ditto"))


def test_without_a_pull_it_is_local_only_to_the_bit():
    setting = Setting(momentum=0.9, per_round=5, rounds=3)  # all in round 1, so that all start from w⁰
    own = run_library(setting, "ditto", lam=0.0)[1]
    assert all(map(same, own, run_library(setting, InTheOtherOrder())[1]))


def test_the_own_model_is_kept_and_nothing_more_travels():
    setting = normalised(rounds=3)
    _, records, _ = watched(setting, "ditto")
    _, usual, _ = watched(setting, "fedavg")
    model = sum(v.nbytes for v in setting.module.state_dict().values())
    for record, fedavg in zip(records, usual, strict=True):
        assert record.bytes_down == record.bytes_up == 2 * model
        assert record.client_memory == model
        w = sum(p.numel() for p in setting.module.parameters())
        steps = sum(-(-len(setting.pairs[k][1]) // setting.batch_size) for k in record.clients)
        # a second training, with two operations more in each step; the averaging happens once
        assert (
            record.macs == 2 * (fedavg.macs - 2 * model_numbers(setting)) + 2 * model_numbers(setting) + 2 * steps * w
        )
    assert Ditto().attaching(COST).flops == 7 * 4 * 300 + 2 * 7 * 10
    assert Ditto().lam == 1.0


def model_numbers(setting):
    return sum(v.numel() for v in setting.module.state_dict().values())


@pytest.mark.parametrize("wrong", ["anchored at its start", "starts at the global model", "trained in place"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    def client(self, received, memory, local):
        own = received if memory.is_new or wrong == "starts at the global model" else memory.vectors
        anchor = own["w"] if wrong == "anchored at its start" else received["w"]
        trained = local.train(received)
        v = local.train(own, Affine(a=self.lam, c=-self.lam * anchor), order="ditto")
        return Reply(upload=v if wrong == "trained in place" else trained, keep=v)

    monkeypatch.setattr(Ditto, "client", client)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(0.0, 0.0)
