"""Flower's simulation, for all ten methods in one start of it: the same bits as without Flower."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from torch import nn

from fedtrip import Experiment, UserError, run
from fedtrip.experiment.federation import prepare
from fedtrip.families import METHOD
from fedtrip.flower.client_app import client_app
from fedtrip.flower.engine import Tolerance
from fedtrip.flower.server import run_on_grid
from fedtrip.runs.folder import Destination, read_records
from fedtrip.runs.running import run_federation

from .deployment import OFFLINE


def experiment(method):
    return Experiment(
        method=method, rounds=3, clients=4, per_round=3, samples_per_client=100, keep_optimizer_state=True
    )


@pytest.mark.slow
def test_every_method_has_the_same_bits_on_a_simulation(tmp_path, monkeypatch):
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    server, digests = ServerApp(), {}

    @server.main()
    def main(grid, _context):
        for method in METHOD.names():
            there = Destination(tmp_path / method)
            result = run_on_grid(grid, prepare(experiment(method)), there, tolerance=Tolerance())
            digests[method] = result.model_sha256

    run_simulation(
        server_app=server,
        client_app=client_app(**{"memory-dir": str(tmp_path / "memories")}),
        num_supernodes=4,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0},
            "init_args": {"address": "local", "num_cpus": 2},
        },
    )
    assert digests == {m: run_federation(prepare(experiment(m)), workers=1).model_sha256 for m in METHOD.names()}
    for method in METHOD.names():
        for record in read_records(tmp_path / method):
            assert not record.refused
            if method == "fedtrip":  # others may send the same vector twice, which Flower serialises once
                assert record.bytes_down < record.wire_down < 1.1 * record.bytes_down
                assert record.bytes_up < record.wire_up < 1.1 * record.bytes_up
    assert not list((tmp_path / "memories").rglob("*.safetensors"))


TOGETHER = {
    "topk, median": {"method": "fedavg", "upload_codec": "topk:0.1", "combine": "median"},
    "int8, adam": {"method": "scaffold", "upload_codec": "int8", "server_optimizer": "adam"},
    "topk, trimmed": {"method": "fedtrip", "upload_codec": "topk:0.5", "combine": "trimmed:0.25", "select": "weighted"},
    "no feedback": {"method": "mimelite", "upload_codec": {"name": "topk:0.2", "feedback": False}},
    "come and go": {"method": "moon", "select": "available:0.6", "server_optimizer": "yogi", "combine": "median"},
    "liars": {"method": "fedavg", "attack": "backdoor:0.3", "upload_codec": "int8", "combine": "centered:0.5"},
    "colluders": {"method": "fedtrip", "attack": "alie:0.3", "combine": "krum:0"},
    "adam, clipped": {"method": "fedprox", "optimizer": "adam", "clip": "gradient:1", "lr_schedule": "cosine"},
}
"""Rules of all families together: a sample of the product of `make cross`."""


@pytest.mark.slow
def test_rules_together_have_the_same_bits_on_a_simulation(tmp_path, monkeypatch):
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    server, seen = ServerApp(), {}

    def described(name):
        return prepare(experiment("fedavg").but(**TOGETHER[name]))

    @server.main()
    def main(grid, _context):
        for name in TOGETHER:
            result = run_on_grid(grid, described(name), Destination(tmp_path / name), tolerance=Tolerance())
            seen[name] = result.model_sha256, [record.bytes_up for record in result.records]

    run_simulation(
        server_app=server,
        client_app=client_app(**{"memory-dir": str(tmp_path / "memories")}),
        num_supernodes=4,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0},
            "init_args": {"address": "local", "num_cpus": 2},
        },
    )
    here = {name: run_federation(described(name), workers=1) for name in TOGETHER}
    assert seen == {name: (run.model_sha256, [r.bytes_up for r in run.records]) for name, run in here.items()}
    assert len({sha for sha, _ in seen.values()}) == len(TOGETHER)


@pytest.mark.slow
def test_the_command_line_runs_it(fedtrip, tmp_path, monkeypatch):
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    shas = []
    for engine in ("flower-simulation", "local"):
        ended = fedtrip(
            "run", "--engine", engine, "--rounds", 2, "--clients", 3, "--json", "-q", "--out", tmp_path / engine
        )
        assert ended.code == 0, ended.err
        shas.append(json.loads(ended.out)["model_sha256"])
    assert shas[0] == shas[1]
    assert not os.path.exists(tmp_path / "flower-simulation" / "checkpoint")


@pytest.mark.slow
def test_ctrl_c_ends_it_after_the_round_without_a_traceback(tmp_path):
    out = tmp_path / "run"
    running = subprocess.Popen(
        [sys.executable, "-m", "fedtrip", "run", "--engine", "flower-simulation", "--rounds", "300", "--out", out],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **OFFLINE},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also where pytest is a background job
    )
    try:
        deadline = time.monotonic() + 120
        while not (out / "metrics.jsonl").exists() or not read_records(out):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "to go on: fedtrip run --resume" in told
    assert "Traceback" not in told
    assert 1 <= len(read_records(out)) < 300


@pytest.mark.slow
def test_python_runs_it_without_a_folder_too(tmp_path, monkeypatch):
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    wanted = Experiment(rounds=2, clients=3, samples_per_client=40)
    there = run(wanted, engine="flower-simulation", min_clients=3)
    assert there.model_sha256 == run(wanted, workers=1).model_sha256
    assert there.records[0].wire_up > 0
    assert not list(tmp_path.iterdir())


def test_python_refuses_what_the_command_line_refuses(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    for given, message in (
        ({"engine": "flower"}, "engine 'flower' is unknown; did you mean 'flower-simulation'?"),
        ({"round_timeout": 5}, "round-timeout has no meaning on one machine"),
        ({"min_clients": 2}, "min-clients has no meaning on one machine"),
        ({"engine": "flower-simulation", "min_clients": 0}, "min-clients is 0; accepted: at least 1"),
        ({"engine": "flower-simulation", "model": model}, "model is a Python object, which no node can make"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            run(Experiment(rounds=1), out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_options_of_flower_are_refused_without_it(fedtrip, tmp_path):
    for option, value in (("--round-timeout", 5), ("--min-clients", 2)):
        ended = fedtrip("run", option, value, "--out", tmp_path / "run")
        assert (ended.code, f"{option} has no meaning on one machine" in ended.err) == (2, True)
    for option, value in (("--round-timeout", 0), ("--min-clients", 0)):
        ended = fedtrip("run", "--engine", "flower-simulation", option, value, "--out", tmp_path / "run")
        assert (ended.code, "accepted: " in ended.err) == (2, True)
    assert not (tmp_path / "run").exists()
