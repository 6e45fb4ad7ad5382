"""The app that `fedtrip new-app` writes, and the keys of a test federation."""

import ssl
import stat
import subprocess
import sys
import tomllib

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from flwr.cli.config_utils import load_and_validate

from fedtrip.experiment.description import Experiment
from fedtrip.flower.engine import Tolerance
from fedtrip.flower.own_data import node_federation, samples_of, server_federation


def test_the_app_is_one_that_flower_accepts_and_its_data_fit_its_experiment(fedtrip, here, monkeypatch):
    assert fedtrip("new-app", "my-app").code == 0
    assert fedtrip("new-app", "my-app").code == 2
    for bad in ("My App", "../x", "app-"):
        assert "is not accepted" in fedtrip("new-app", bad).err
    app = here / "my-app"
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert not warnings
    settings = config["tool"]["flwr"]["app"]["config"]
    Tolerance(settings["round-timeout"], settings["min-clients"])
    monkeypatch.syspath_prepend(app)
    experiment = Experiment.from_toml(app / settings["experiment"])
    server = server_federation(experiment, samples_of(settings["data"], settings, experiment))
    assert len(server.dataset.x_test) == 360
    stored = Experiment.from_text(server.experiment.to_toml())
    for client in range(2):
        own = samples_of("my_app.data:load", {"partition-id": client}, stored)
        node = node_federation(stored, own, server.dataset.classes, str(server.dataset.inputs))
        assert node.partition.samples(client) == len(node.partition.share(client)) > 700
    assert "{" not in (app / "README.md").read_text()
    assert tomllib.loads((app / "pyproject.toml").read_text())["project"]["name"] == "my-app"


def test_the_keys_are_the_owners_alone_and_are_never_replaced(tmp_path):
    command = [sys.executable, "-m", "fedtrip.flower.credentials", str(tmp_path / "keys"), "--nodes", "2"]
    assert subprocess.run(command, check=False).returncode == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {"server.key", "node-1", "node-2"}
    assert len(modes) == 7
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "keys" / "server.pem", tmp_path / "keys" / "server.key")
    again = subprocess.run(command, check=False, capture_output=True, text=True)
    assert again.returncode == 2
    assert "is there already" in again.stderr
