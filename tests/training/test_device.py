"""A device for local training: what is there is tried on a pretended one, and on a real one where there is one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import fedtrip
from fedtrip import Experiment
from fedtrip.errors import UserError
from fedtrip.experiment.federation import prepare
from fedtrip.training.device import seed_dropout

SMALL = {"rounds": 2, "samples_per_client": 60, "compute": "torch", "client_test": 0.2, "eval_clients": 1}
CHECKS = Path(__file__).with_name("device_checks.py")


def test_placement_on_a_pretended_device():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(CHECKS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKS.parents[2])
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    assert "passed" in ended.stdout or "[100%]" in ended.stdout


@pytest.mark.parametrize("name", ["cuda:99", "gpu", "cuda:x", ""])
def test_a_device_that_is_not_here_is_refused(name):
    with pytest.raises(UserError, match=f"device is '{name}'.*accepted: "):
        prepare(Experiment(**SMALL, device=name))


@pytest.mark.parametrize(("name", "function"), [("mps", "manual_seed"), ("cuda", "manual_seed_all")])
def test_dropout_is_seeded_on_every_kind_of_device(name, function, monkeypatch):
    seen = []
    monkeypatch.setattr(getattr(torch, name), function, seen.append)  # an error if torch has it no longer
    with torch.random.fork_rng(devices=[]):
        seed_dropout(5, torch.device(name))
    assert seen == [5]


def net():
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(144, 10),
    ]
    return nn.Sequential(*layers)


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="no accelerator here: untested on a real one")
@pytest.mark.parametrize("method", ["fedavg", "fedtrip", "moon"])
def test_on_a_real_accelerator(method):
    name = torch.accelerator.current_accelerator().type
    experiment = Experiment(**SMALL, method=method)
    here = fedtrip.run(experiment, model=net(), workers=1)
    there, again = (fedtrip.run(experiment.but(device=name), model=net(), workers=n) for n in (1, 2))
    assert there.model_sha256 == again.model_sha256
    assert there.records[-1].scores["loss"] == pytest.approx(here.records[-1].scores["loss"], rel=0.01)
