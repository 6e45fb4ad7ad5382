"""FedRep: E_h epochs on the head with the body frozen, then E on the body with the head frozen; the body travels."""

import pytest
import torch
from tests.reference.naive_personal_methods import COST, assert_follows_personally, play_apart, run_library, same
from tests.reference.quadratic import QuadraticLocal
from tests.reference.setting import Setting, normalised, samples
from tests.reference.watching import watched

from fedtrip.methods.fedrep import FedRep
from fedtrip.methods.interface import Memory, Reply
from fedtrip.training.costs import pass_cost


def test_two_rounds_by_hand():
    # η = ½; one step on the head (second number): h ← (h + b)/2, then two on the body, which is FedAvg's: 5.25, then
    # 0.3125. Heads: client 0 (b 4) has 2, then 3; client 1 (b 8) 4; client 2 (b −4), new in round 2, −2.
    b = [[4.0, 4.0], [8.0, 8.0], [-4.0, -4.0]]
    history = play_apart(FedRep(head_epochs=1), b=b, samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert history[0] == ([5.25, 0.0], {0: [5.25, 2.0], 1: [5.25, 4.0]})
    assert history[1] == ([0.3125, 0.0], {0: [0.3125, 3.0], 1: [0.3125, 4.0], 2: [0.3125, -2.0]})


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(momentum, weight_decay):
    # The head is fitted first, and the body is trained below the fitted one; weight decay and momentum leave the frozen
    # part alone; each phase begins with a momentum of zero and has its own order of batches.
    setting = Setting(momentum=momentum, weight_decay=weight_decay, local_epochs=2)
    assert_follows_personally(setting, "fedrep", head_epochs=3)


def test_batch_norm_belongs_to_the_body():
    assert_follows_personally(normalised(rounds=3, weight_decay=0.02), "fedrep", head_epochs=2)


def test_the_frozen_part_keeps_its_bits_in_each_phase():
    seen = []

    class Spy(QuadraticLocal):
        def train(self, start, *args, **options):
            seen.append((options.get("only"), options.get("order", "batches"), start["w"].tolist()))
            return super().train(start, *args, **options)

    from tests.reference.naive_personal_methods import LAYOUT

    local = Spy([4.0, 4.0], round_number=1, lr=0.5, steps=1, initial=torch.zeros(2), layout=LAYOUT)
    FedRep(head_epochs=2).client({"w": torch.zeros(2)}, Memory(), local)
    assert seen == [
        ({"head.weight"}, "head", [0.0, 0.0]),
        ({"body.weight"}, "batches", [0.0, 3.0]),  # the body is as it was, the head 0, 2, 3
    ]


def test_without_epochs_on_the_head_it_is_fedbabus_training_to_the_bit():
    setting = Setting(pairs=samples([8] * 5), momentum=0.9, weight_decay=0.05, local_epochs=2)  # equal n_k: one mean
    model, own, _ = run_library(setting, "fedrep", head_epochs=0)
    assert same(model, run_library(setting, "fedbabu")[0])
    start = setting.module.state_dict()
    for one in own:
        assert torch.equal(one["head.weight"], start["head.weight"])
        assert torch.equal(one["head.bias"], start["head.bias"])


def test_the_head_does_not_travel_and_its_epochs_are_counted():
    setting = normalised(rounds=3)
    model, head = sum(v.nbytes for v in setting.module.state_dict().values()), 4 * 18
    _, three, _ = watched(setting, "fedrep", head_epochs=3)
    _, two, _ = watched(setting, "fedrep", head_epochs=2)
    w = sum(p.numel() for p in setting.module.parameters())
    for more, less in zip(three, two, strict=True):
        assert more.bytes_down == more.bytes_up == 2 * (model - head)
        assert more.client_memory == head
        n = [len(setting.pairs[k][1]) for k in more.clients]
        steps = sum(-(-size // setting.batch_size) for size in n)
        assert more.macs - less.macs == sum(n) * pass_cost(setting.module, (6,)).training + steps * w
    assert FedRep(head_epochs=3).attaching(COST).flops == 3 * 25 * (100 + 200)
    assert (FedRep().head_epochs, FedRep.momentum) == (10, 0.5)


@pytest.mark.parametrize("wrong", ["body first", "both at once", "one order"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    def client(self, received, memory, local):  # noqa: ARG001
        head, body = self.head_of(local.layout), self.body_of(local.layout)
        if wrong == "body first":
            return Reply(
                local.train(local.train(received, only=body), only=head, epochs=self.head_epochs, order="head")
            )
        if wrong == "both at once":
            return Reply(local.train(local.train(received, epochs=self.head_epochs, order="head"), only=body))
        return Reply(local.train(local.train(received, only=head, epochs=self.head_epochs), only=body))

    monkeypatch.setattr(FedRep, "client", client)
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(0.0, 0.0)
