"""What is stored of a module with frozen parameters: the trained ones, buffers, and a digest in place of the others."""

import importlib
from dataclasses import replace

import pytest
import torch
from torch import nn

import fedtrip
from fedtrip.errors import UserError
from fedtrip.training.trained_state import FROZEN_SHA256, frozen_names, load_trained_state, without_frozen
from fedtrip.vectors import state_sha256


def adapted(scale=1.0):
    """A frozen layer of 6·50 + 50 parameters, a BatchNorm (10·2 trained, 2·10 + 1 in buffers) and a trained head."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 50), nn.ReLU(), nn.Linear(50, 10), nn.BatchNorm1d(10), nn.Linear(10, 3))
    module[0].requires_grad_(False).weight.mul_(scale)
    return module


def made_data():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 3
    x = torch.randn(120, 6, generator=generator) + y[:, None]
    return {"x_train": x[:90], "y_train": y[:90], "x_test": x[90:], "y_test": y[90:]}


FIELDS = {"rounds": 2, "clients": 3, "per_round": 2, "partition": "iid", "batch_size": 10}
TRAINED = 50 * 10 + 10 + 20 + 10 * 3 + 3


def stored(module):
    return without_frozen(module.state_dict(), frozen_names(module))


def test_frozen_parameters_are_left_out_and_their_digest_stands_for_them():
    state = stored(adapted())
    trained = {"2.weight", "2.bias", "3.weight", "3.bias", "4.weight", "4.bias"}
    buffers = {"3.running_mean", "3.running_var", "3.num_batches_tracked"}
    assert set(state) == {*trained, *buffers, FROZEN_SHA256}
    frozen = {"0.weight": adapted()[0].weight, "0.bias": adapted()[0].bias}
    assert bytes(state[FROZEN_SHA256].tolist()).hex() == state_sha256(frozen)
    assert state_sha256(stored(adapted(2.0))) != state_sha256(state)


def test_without_frozen_parameters_it_is_the_state_dict():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = stored(module)
    assert state_sha256(state) == state_sha256(module.state_dict())


def test_it_is_loaded_into_the_same_base_only():
    state = stored(adapted())
    state["4.bias"] = torch.full((3,), 7.0)
    module = adapted()
    load_trained_state(module, state)
    assert module[4].bias.tolist() == [7, 7, 7]
    assert torch.equal(module[0].weight, adapted()[0].weight)
    other = adapted(2.0)
    with pytest.raises(UserError, match=r"frozen parameters have SHA-256 \w{64}; accepted: those that it was trained"):
        load_trained_state(other, state)
    del state["4.weight"]
    with pytest.raises(RuntimeError, match=r"Missing key.*4.weight"):
        load_trained_state(adapted(), state)


def test_a_whole_state_dict_of_an_earlier_run_is_loaded_too():
    module = adapted(2.0)
    load_trained_state(module, adapted().state_dict())
    assert torch.equal(module[0].weight, adapted()[0].weight)


@pytest.mark.parametrize("tied", [False, True])
def test_a_frozen_weight_under_two_names_is_stored_under_neither(tied):
    module = nn.Sequential(nn.Embedding(5, 4).requires_grad_(False), nn.Linear(4, 4), nn.Linear(4, 5, bias=False))
    if tied:
        module[2].weight = module[0].weight
    names = {name for name in stored(module) if name != FROZEN_SHA256}
    assert names == {"1.weight", "1.bias", *(() if tied else ("2.weight",))}
    load_trained_state(module, stored(module))


@pytest.mark.parametrize("method", ["fedavg", "fedtrip"])
def test_only_what_is_trained_travels_is_kept_and_is_stored(tmp_path, method):
    run = tmp_path / "run"
    experiment = fedtrip.Experiment(method=method, snapshot=[1], **FIELDS)
    result = fedtrip.run(experiment, model=adapted, data=made_data(), workers=1, out=run)
    buffers = 2 * 10 * 4 + 8
    assert result.records[-1].bytes_up == 2 * (4 * TRAINED + buffers)
    assert result.records[-1].bytes_down == 2 * (4 * TRAINED + buffers)
    assert result.records[-1].client_memory == (0 if method == "fedavg" else 4 * TRAINED)
    files = [run / "model.safetensors", *run.glob("snapshots/*/*.safetensors")]
    assert len(files) == 4
    for file in files:
        assert 4 * TRAINED + buffers < file.stat().st_size < 4 * TRAINED + buffers + 1500  # the base has 1400
    assert torch.equal(result.state["0.weight"], adapted()[0].weight)  # in memory it is whole
    assert fedtrip.load_result(run).model_sha256 == result.model_sha256
    assert torch.equal(result.module[0].weight, fedtrip.load(run, model=adapted, data=made_data())[0].weight)
    assert fedtrip.evaluate(run, model=adapted, data=made_data())["accuracy"] == result.final_model_score


def test_another_base_is_refused_when_a_stored_run_is_evaluated(tmp_path, monkeypatch):
    """A factory has no digest in the experiment: that of the frozen parameters is in the model's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        "import torch\nfrom torch import nn\ndef make():\n    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))\n"
        "    nn.init.constant_(net[0].requires_grad_(False).weight, {})\n    return net\n"
    )
    for name, value in (("frozen_one", 1.0), ("frozen_two", 2.0)):
        (tmp_path / f"{name}.py").write_text(source.format(value))
    experiment = fedtrip.Experiment(model="frozen_one:make", **FIELDS)
    fedtrip.run(experiment, data=made_data(), workers=1, out="run")
    fedtrip.evaluate("run", data=made_data(), trust=True)
    stored = fedtrip.load_result("run", data=made_data(), trust=True)
    other = replace(stored, build=importlib.import_module("frozen_two").make)
    with pytest.raises(UserError, match="the model's frozen parameters have SHA-256"):
        _ = other.module
