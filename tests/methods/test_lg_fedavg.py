"""LG-FedAvg: body and head are trained together; the head is averaged uniformly, each body stays with its client."""

import pytest
from tests.reference.naive_personal_methods import COST, assert_follows_personally, play_apart, run_library, same
from tests.reference.setting import Setting, normalised, samples
from tests.reference.watching import watched

from fedtrip.methods.lg_fedavg import LgFedAvg


def test_two_rounds_by_hand():
    # η = ½, two steps: w ← w/4 + ¾b. The second number, the head, is averaged uniformly: (3 + 6)/2 = 4.5; then client 0
    # (b 4) has 4.5/4 + 3 = 4.125, client 2 (b −4) 1.125 − 3 = −1.875, the mean is 1.125. Bodies: client 0 has 3, then
    # 3.75; client 1 (b 8) 6; client 2, new in round 2, −3.
    b = [[4.0, 4.0], [8.0, 8.0], [-4.0, -4.0]]
    history = play_apart(LgFedAvg(), b=b, samples=[1, 3, 2], chosen=[(0, 1), (0, 2)])
    assert history[0] == ([0.0, 4.5], {0: [3.0, 4.5], 1: [6.0, 4.5]})
    assert history[1] == ([0.0, 1.125], {0: [3.75, 1.125], 1: [6.0, 1.125], 2: [-3.0, 1.125]})


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(momentum, weight_decay):
    assert_follows_personally(Setting(momentum=momentum, weight_decay=weight_decay, local_epochs=2), "lg-fedavg")


def test_batch_norm_stays_with_the_body():
    assert_follows_personally(normalised(rounds=4, weight_decay=0.02), "lg-fedavg")


class NoBody(LgFedAvg):
    def stays(self, layout):  # noqa: ARG002
        return frozenset()


class AllBody(LgFedAvg):
    def stays(self, layout):
        return frozenset(layout.parts)


def test_without_a_local_part_it_is_fedavg_and_with_nothing_else_local_only_to_the_bit():
    setting = normalised(rounds=4, momentum=0.9).but(pairs=samples([16] * 5))  # so that the uniform mean is FedAvg's
    assert same(run_library(setting, NoBody())[0], run_library(setting, "fedavg")[0])
    all_body, local = run_library(setting, AllBody()), run_library(setting, "local")
    assert same(all_body[0], local[0])
    assert all(map(same, all_body[1], local[1]))
    assert not same(run_library(setting, "lg-fedavg")[0], run_library(setting, "fedavg")[0])


def test_only_the_head_travels():
    setting = normalised(rounds=3)
    _, records, _ = watched(setting, "lg-fedavg")
    model, head = sum(v.nbytes for v in setting.module.state_dict().values()), 4 * 18
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * head
        assert record.client_memory == model - head
    assert LgFedAvg().attaching(COST).flops == 0


@pytest.mark.parametrize("wrong", ["weighted by samples", "the other part stays"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    if wrong == "weighted by samples":
        monkeypatch.setattr(LgFedAvg, "weighting", "samples")
    else:
        monkeypatch.setattr(LgFedAvg, "stays", lambda self, layout: self.head_of(layout))
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(0.0, 0.0)
