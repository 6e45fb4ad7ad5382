"""Parts of a model by name and kind of layer, and parts that never travel."""

from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file
from tests.reference.setting import Net, Setting, made, normalised
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.layout import Layout
from fedtrip.training.flat_model import FlatModel


def layout_of(module, shape=(6,)):
    return FlatModel(module, shape).layout


def test_parts_are_found_by_the_type_of_their_layer():
    layout = layout_of(made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh())))
    assert layout.norms == {"body.1.weight", "body.1.bias", "body.1.running_mean", "body.1.running_var"} | {
        "body.1.num_batches_tracked"
    }
    assert layout.head == {"head.weight", "head.bias"}
    assert layout.below("body.0") == {"body.0.weight", "body.0.bias"}
    assert layout_of(made(Net)).norms == frozenset()


def test_a_mask_covers_the_parts_and_nothing_else():
    layout = layout_of(made(Net))
    marks = layout.mask(layout.head, "w")
    assert int(marks.sum()) == 18  # 5·3 + 3
    assert bool(marks[35:].all())  # it lies at the end: 6·5 + 5 come before
    with pytest.raises(UserError, match=r"part of the model 'hed.bias' is unknown; did you mean 'head.bias'"):
        layout.mask({"hed.bias"}, "w")
    with pytest.raises(UserError, match="layer 'tail' is unknown"):
        layout.below("tail")
    with pytest.raises(UserError, match="no head"):
        Layout({}).head  # noqa: B018


@dataclass(frozen=True)
class OwnHead(fedtrip.Method):
    """FedAvg whose last layer stays with each client"""

    def stays(self, layout):
        return layout.head


@dataclass(frozen=True)
class OwnNorms(fedtrip.Method):
    """FedAvg whose norm layers stay with each client"""

    def stays(self, layout):
        return layout.norms


def run(setting, method, **changes):
    experiment = setting.experiment("fedavg").but(method=method, **changes)
    return fedtrip.run(experiment, model=setting.module, data=setting.data, workers=1)


def test_what_stays_is_neither_sent_nor_averaged():
    setting = Setting(rounds=3)
    result = run(setting, OwnHead())
    start = setting.module.state_dict()
    assert torch.equal(result.state["head.weight"], start["head.weight"])  # on the server as it was in the beginning
    assert not torch.equal(result.state["body.0.weight"], start["body.0.weight"])
    assert {record.bytes_up for record in result.records} == {2 * 4 * 35}
    assert {record.bytes_down for record in result.records} == {2 * 4 * 35}
    assert {record.client_memory for record in result.records} == {4 * 18}


def test_a_client_goes_on_with_its_own_part():
    """One client: nothing is averaged, so that with its own head it trains as if all of it had travelled."""
    setting = Setting(rounds=4, per_round=1).but(pairs=Setting().pairs[:1])
    whole = run(setting, fedtrip.Experiment(method="fedavg").method)
    split = run(setting, OwnHead())
    assert torch.equal(whole.state["body.0.weight"], split.state["body.0.weight"])
    assert not torch.equal(whole.state["head.weight"], split.state["head.weight"])


def test_norm_layers_with_their_statistics_may_stay():
    setting = normalised(rounds=3)
    result = run(setting, OwnNorms())
    for name, value in setting.module.state_dict().items():
        if name.startswith("body.1.") or name.endswith("weight"):
            assert torch.equal(result.state[name], value) == name.startswith("body.1."), name


def test_without_such_parts_it_is_fedavg_to_the_bit():
    setting = Setting(rounds=3)
    assert run(setting, OwnNorms()).model_sha256 == setting.run("fedavg").model_sha256


@pytest.mark.parametrize("codec", ["int8", "topk:0.5"])
@pytest.mark.parametrize("combine", ["mean", "median"])
def test_it_goes_with_codecs_and_other_rules_of_combining(codec, combine):
    result = run(Setting(rounds=3), OwnHead(), upload_codec=codec, combine=combine)
    assert result.ended is None
    assert torch.equal(result.state["head.weight"], Setting().module.state_dict()["head.weight"])


def test_a_snapshot_of_a_clients_model_has_the_servers_part_where_the_clients_own_stays(tmp_path):
    setting = Setting(rounds=2)
    experiment = setting.experiment("fedavg").but(method=OwnHead(), snapshot=(2,))
    fedtrip.run(experiment, model=setting.module, data=setting.data, out=tmp_path / "run", workers=1)
    start = setting.module.state_dict()
    models = sorted((tmp_path / "run/snapshots/round-0002").glob("client-*.safetensors"))
    assert len(models) == 2
    for model in map(load_file, models):
        assert torch.equal(model["head.weight"], start["head.weight"])
        assert not torch.equal(model["body.0.weight"], start["body.0.weight"])
