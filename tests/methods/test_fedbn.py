"""FedBN: all travels but the norm layers' affine and statistics, which stay with their client."""

import logging

import pytest
import torch
from tests.reference.naive_personal_methods import COST, assert_follows_personally, play_apart, run_library
from tests.reference.setting import Setting, normalised
from tests.reference.watching import watched
from torch import nn

import fedtrip
from fedtrip.layout import Layout, Part
from fedtrip.methods.fedbn import FedBn

NORM_FIRST = Layout(
    {"shortcut.weight": Part("w", 0, 1, (1,), nn.GroupNorm), "fc.weight": Part("w", 1, 2, (1,), nn.Linear)}
)


def test_two_rounds_by_hand():
    # η = ½, two steps: w ← w/4 + ¾b. The second number is FedAvg's: 5.25, then 0.3125. The first stays: client 0 (b 4)
    # has 3, then 3.75; client 1 (b 8) 6; client 2 (b −4), new in round 2, goes from 0 to −3.
    history = play_apart(
        FedBn(),
        b=[[4.0, 4.0], [8.0, 8.0], [-4.0, -4.0]],
        samples=[1, 3, 2],
        chosen=[(0, 1), (0, 2)],
        layout=NORM_FIRST,
    )
    assert history[0] == ([0.0, 5.25], {0: [3.0, 5.25], 1: [6.0, 5.25]})
    assert history[1] == ([0.0, 0.3125], {0: [3.75, 0.3125], 1: [6.0, 0.3125], 2: [-3.0, 0.3125]})


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(weight_decay):
    assert_follows_personally(normalised(weight_decay=weight_decay, momentum=0.5, rounds=5), "fedbn")


def test_the_global_model_has_the_initial_norm_layers_and_the_clients_their_own():
    setting = normalised(rounds=4)
    model, own, _ = run_library(setting, "fedbn")
    start = setting.module.state_dict()
    for name in start:
        if name.startswith("body.1."):
            assert torch.equal(model[name], start[name])
    assert not torch.equal(own[0]["body.1.running_mean"], own[1]["body.1.running_mean"])
    assert torch.equal(own[0]["head.weight"], model["head.weight"])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_norm_layers_it_is_fedavg_to_the_bit_and_says_so(momentum, caplog, tmp_path):
    setting = Setting(momentum=momentum, weight_decay=0.01)
    with caplog.at_level(logging.WARNING):
        result = fedtrip.run(
            setting.experiment("fedbn"), model=setting.module, data=setting.data, workers=1, out=tmp_path / "run"
        )
    assert result.model_sha256 == setting.run("fedavg").model_sha256
    said = "the model has no norm layers, so that fedbn is fedavg"
    assert [record.message for record in caplog.records].count(said) == 1
    assert result.summary()["remark"] == said
    assert fedtrip.load_result(tmp_path / "run").remark == said
    silent = normalised(rounds=1).run("fedbn")
    assert silent.remark is None
    assert "remark" not in silent.summary()


def test_the_norm_layers_do_not_travel():
    setting = normalised(rounds=3)
    _, records, _ = watched(setting, "fedbn")
    norm = 4 * (5 + 5 + 5 + 5) + 8  # weight, bias, mean, variance of five, and a counter
    model = sum(v.nbytes for v in setting.module.state_dict().values())
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * (model - norm)
        assert record.client_memory == norm
    assert FedBn().attaching(COST).flops == 0


def test_norm_layers_selected_by_their_names_are_caught(monkeypatch):
    def named_bn(_self, layout):
        return frozenset(name for name in layout.parts if "bn" in name)

    monkeypatch.setattr(FedBn, "stays", named_bn)
    with pytest.raises(AssertionError):
        test_two_rounds_by_hand()
    with pytest.raises(AssertionError):
        test_runs_like_the_reference(0.0)
