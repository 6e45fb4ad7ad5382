"""What computes a run is decided once, stored, and demanded again."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import fedtrip as package
from fedtrip import Experiment
from fedtrip.comparison.comparable import settings_of
from fedtrip.errors import UserError
from fedtrip.experiment import compute
from fedtrip.experiment.compute import decide
from fedtrip.experiment.federation import PackedFederation, prepare
from fedtrip.flower.own_data import node_federation, server_federation
from fedtrip.native import chain
from fedtrip.training.workbench import Workbench

SMALL = {"rounds": 4, "samples_per_client": 60}


def convolutional(channels):
    return nn.Sequential(nn.Conv2d(1, channels, 3), nn.ReLU(), nn.Flatten(), nn.Linear(channels * 36, 3))


def decided(module, wanted="auto", shape=(1, 8, 8), tapped=False, representation=None):
    return decide(wanted, module, shape, tapped=tapped, representation=representation)


@pytest.fixture
def without_library(monkeypatch):
    monkeypatch.setattr(compute, "library", lambda: None)
    monkeypatch.setattr(compute, "why_missing", lambda: "there is none")


@pytest.mark.parametrize(
    ("channels", "wanted"), [(63, "native"), (64, "native-evaluation"), (127, "native-evaluation"), (128, "torch")]
)
def test_auto_goes_by_the_widest_convolution(channels, wanted):
    assert decided(convolutional(channels)) == wanted
    assert decided(convolutional(channels), "torch") == "torch"
    assert decided(convolutional(channels), "native") == "native"
    assert decided(convolutional(channels), "native-evaluation") == "native-evaluation"


def test_a_wide_linear_layer_is_no_convolution():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 500), nn.ReLU(), nn.Linear(500, 3))
    assert decided(module) == "native"
    covering = nn.Sequential(nn.Conv2d(1, 200, 8), nn.Flatten(), nn.Linear(200, 3))
    assert decided(covering) == "native"


def test_a_representation_that_the_chain_does_not_have_is_left_to_torch():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3))
    assert decided(module, tapped=True) == "native"
    assert decided(module, tapped=True, representation="3") == "native-evaluation"
    assert decided(module, "native-evaluation", tapped=True, representation="3") == "native-evaluation"
    with pytest.raises(UserError, match=r"compute is 'native'.*representation '3' is its output"):
        decided(module, "native", tapped=True, representation="3")


def test_what_is_no_chain_is_torchs_and_refused_where_native_is_demanded():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    assert decided(module) == "torch"
    for wanted in ("native", "native-evaluation"):
        with pytest.raises(UserError, match=f"compute is '{wanted}'.*buffer '2.running_mean'; accepted: auto or torch"):
            decided(module, wanted)


@pytest.mark.usefixtures("without_library")
def test_without_the_library_everything_is_torchs_or_refused():
    assert decided(convolutional(4)) == "torch"
    with pytest.raises(
        UserError, match=r"compute is 'native'.*library is missing: there is none; accepted: auto or torch"
    ):
        decided(convolutional(4), "native")


def test_a_module_that_is_traced_wrongly_is_torchs(monkeypatch):
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Tanh())
    monkeypatch.setattr(nn.Tanh, "forward", lambda _layer, x: torch.sin(x))
    assert decided(module) == "torch"


def test_the_decision_is_stored_and_can_be_run_again(tmp_path):
    result = package.run(Experiment(**SMALL), out=tmp_path / "run", workers=1)
    assert result.experiment.compute == "native"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["compute"] == "native"
    assert summary["kernels"] == result.kernels
    assert result.kernels in ("avx512", "avx2", "wide", "reference")
    assert summary["acceleration"] == ["native chain: flatten, linear 64→100, ReLU, linear 100→10"]
    stored = Experiment.from_toml(tmp_path / "run" / "experiment.toml")
    assert stored.compute == "native"
    assert package.run(stored, workers=1).model_sha256 == result.model_sha256
    assert package.load_result(tmp_path / "run").kernels == result.kernels
    by_torch = package.run(Experiment(**SMALL, compute="torch"), workers=1)
    assert by_torch.summary()["compute"] == "torch"
    assert by_torch.summary()["kernels"] is None
    assert by_torch.model_sha256 != result.model_sha256


@pytest.mark.parametrize(("begun", "other"), [("native", "torch"), ("torch", "native")])
def test_a_run_goes_on_only_as_it_was_begun(begun, other, tmp_path):
    class Enough(Exception):
        pass

    def stop(record):
        if record.round == 2:
            raise Enough

    with pytest.raises(Enough):
        package.run(Experiment(**SMALL, compute=begun), out=tmp_path / "run", workers=1, on_round=stop)
    told = f"holds another experiment: its compute is '{begun}', here it is '{other}'"
    with pytest.raises(UserError, match=told):
        package.run(Experiment(**SMALL, compute=other), out=tmp_path / "run", resume=True, workers=1)
    whole = package.run(Experiment(**SMALL, compute=begun), workers=1)
    resumed = package.run(Experiment(**SMALL, compute=begun), out=tmp_path / "run", resume=True, workers=1)
    assert resumed.model_sha256 == whole.model_sha256


def test_a_stored_native_run_is_evaluated_without_the_library(tmp_path, monkeypatch):
    result = package.run(Experiment(**SMALL), out=tmp_path / "run", workers=1)
    scores = package.evaluate(tmp_path / "run")
    assert scores == result.records[-1].scores
    monkeypatch.setattr(compute, "library", lambda: None)
    assert package.evaluate(tmp_path / "run") == pytest.approx(scores, abs=1e-5)


def test_a_stored_run_of_torch_is_evaluated_by_torch(tmp_path):
    result = package.run(Experiment(**SMALL, compute="torch"), out=tmp_path / "run", workers=1)
    assert package.evaluate(tmp_path / "run") == result.records[-1].scores


def run_without_library(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "fedtrip", *map(str, arguments)],
        env={**os.environ, "FEDTRIP_NATIVE": "off"}, cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_another_machine_without_the_library_refuses_by_name(tmp_path):
    package.run(Experiment(**SMALL), out=tmp_path / "run", workers=1)
    ended = run_without_library("run", "run/experiment.toml", "--out", "again", "--quiet", cwd=tmp_path)
    assert ended.returncode == 2
    told = " ".join(ended.stderr.split())
    assert "compute is 'native', which cannot be here: the native library is missing" in told
    assert "FEDTRIP_NATIVE" in told
    ended = run_without_library("run", "--rounds", 1, "--out", "own", "--quiet", cwd=tmp_path)
    assert ended.returncode == 0
    assert json.loads((tmp_path / "own" / "summary.json").read_text())["compute"] == "torch"


def test_the_command_line(fedtrip, here):
    ended = fedtrip("run", "--rounds", 1, "--compute", "gpu", "--out", "run")
    assert ended.code == 2
    assert "compute is 'gpu'; accepted: 'auto', 'native', 'native-evaluation' or 'torch'" in " ".join(ended.err.split())
    data = np.random.default_rng(0)
    np.savez(
        "own.npz", x_train=data.normal(size=(40, 5)).astype("f4"), y_train=np.arange(40) % 2,
        x_test=data.normal(size=(8, 5)).astype("f4"), y_test=np.arange(8) % 2,
    )  # fmt: skip
    (here / "norm.py").write_text(
        "from torch import nn\n\ndef net():\n  return nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2))"
    )
    ended = fedtrip("run", "--dataset", "npz:own.npz", "--model", "norm:net", "--compute", "native", "--out", "run")
    assert ended.code == 2
    assert "compute is 'native', which cannot be here: layer '1' is a LayerNorm" in " ".join(ended.err.split())


def test_variants_that_compute_differently_may_be_compared():
    native, by_torch = (Experiment(compute=way) for way in ("native", "torch"))
    settings = settings_of({"a": native, "b": by_torch})
    assert settings["a"] == settings["b"]


def test_a_federation_that_is_handed_over_keeps_the_decision():
    federation = prepare(Experiment(**SMALL))
    again = PackedFederation.of(federation).with_data(federation.dataset)
    assert again.experiment.compute == "native"


def test_a_process_without_the_library_refuses_work_that_needs_it(monkeypatch):
    """What a pool's or Ray's worker on another machine does first."""
    federation = prepare(Experiment(**SMALL))
    monkeypatch.setattr(chain, "library", lambda: None)
    monkeypatch.setattr(chain, "why_missing", lambda: "there is none")
    with pytest.raises(UserError, match="computed by the native library, which is missing here: there is none"):
        Workbench(federation)


def test_a_node_computes_as_the_server_decided_or_refuses(monkeypatch):
    random = torch.Generator().manual_seed(0)
    x, y = torch.rand(12, 6, generator=random), torch.arange(12) % 3
    described = Experiment(dataset="nodes", clients=2, mean=0.5, std=0.3)
    server = server_federation(described, (x, y))
    assert server.experiment.compute == "native"
    told = Experiment.from_text(server.experiment.to_toml())  # what every message to a node says
    assert node_federation(told, (x, y), 3, str(server.dataset.inputs)).experiment == server.experiment
    monkeypatch.setattr(compute, "library", lambda: None)
    with pytest.raises(UserError, match="compute is 'native', which cannot be here: the native library is missing"):
        node_federation(told, (x, y), 3, str(server.dataset.inputs))
    assert server_federation(described, (x, y)).experiment.compute == "torch"
