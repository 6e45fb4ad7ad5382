"""`fedtrip run` and `fedtrip evaluate`, through the real entry point."""

import json
import subprocess
import sys
import textwrap
import tomllib

import pytest

import fedtrip as package
from fedtrip.runs.folder import read_summary

SMALL = ("--rounds", 3, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "--batch-size", 10)


def test_the_summary_goes_to_stdout_and_progress_to_stderr(fedtrip, here):
    ended = fedtrip("run", *SMALL, "--out", "mine")
    assert ended.code == 0
    summary = read_summary(here / "mine")
    for part in (summary["model_sha256"], str(here / "mine"), "not reached in 3", "final accuracy"):
        assert part in ended.out
    assert "fedtrip on digits: 3/3" in ended.err
    assert "3/3" not in ended.out
    assert fedtrip("run", *SMALL, "--out", "quiet", "--quiet").err == ""


def test_json_is_pure_and_the_summary(fedtrip, here):
    ended = fedtrip("run", *SMALL, "--json", "--out", "mine")
    printed = json.loads(ended.out)
    assert printed.pop("out") == str(here / "mine")
    stored = read_summary(here / "mine")
    assert stored.pop("files_sha256").keys() == {"experiment.toml", "metrics.jsonl", "model.safetensors"}
    assert stored.pop("summary_sha256")  # both are of the files that lie there, not of the run
    assert printed == stored
    assert "3/3" in ended.err


def test_new_folders_are_numbered(fedtrip, here):
    for _ in range(2):
        assert fedtrip("run", *SMALL, "-q").code == 0
    assert sorted(path.name for path in (here / "runs").iterdir()) == [
        "fedtrip-mlp-digits-seed0", "fedtrip-mlp-digits-seed0-2"
    ]  # fmt: skip


def test_a_stored_experiment_repeats_the_run_to_the_bit(fedtrip, here):
    fedtrip(
        "run", *SMALL, "--method", "slowmo", "--set", "method.beta=0.5", "--local-epochs", 2, "--out", "first", "-q"
    )
    for number, workers in enumerate((1, 2)):
        ended = fedtrip("run", "first/experiment.toml", "--workers", workers, "--out", f"again{number}", "-q")
        assert ended.code == 0
        assert read_summary(here / f"again{number}")["model_sha256"] == read_summary(here / "first")["model_sha256"]
        assert (here / f"again{number}/experiment.toml").read_text() == (here / "first/experiment.toml").read_text()
    fedtrip("run", "first/experiment.toml", "--seed", 1, "--out", "other", "-q")
    assert read_summary(here / "other")["model_sha256"] != read_summary(here / "first")["model_sha256"]


def test_options_change_single_fields_of_a_file(fedtrip, here):
    (here / "mine.toml").write_text(
        "rounds = 5\nstop_at_target = true\ntarget = 0.01\n[method]\nname = 'fedprox'\nmu = 0.7\n"
    )
    small = ("--samples-per-client", 20, "-q")
    fedtrip("run", "mine.toml", *small, "--out", "a")
    assert read_summary(here / "a")["rounds"] == 1
    fedtrip("run", "mine.toml", *small, "--rounds", 2, "--no-stop-at-target", "--set", "fedprox.mu=0.2", "--out", "b")
    assert read_summary(here / "b")["rounds"] == 2
    assert tomllib.loads((here / "b/experiment.toml").read_text())["method"] == {"name": "fedprox", "mu": 0.2}
    fedtrip("run", "mine.toml", *small, "--method", "moon", "--out", "c")
    assert tomllib.loads((here / "c/experiment.toml").read_text())["method"]["mu"] == 1.0  # not fedprox' 0.7


def test_set_changes_fields_of_the_experiment_as_in_a_comparison(fedtrip, here):
    given = ("--set", "lr=0.05", "--set", "partition=iid", "--set", "snapshot=2-3", "--set", "fedtrip.mu=0.2")
    assert fedtrip("run", *SMALL, *given, "--set", "stop_at_target=true", "--out", "set", "-q").code == 0
    same = ("--lr", 0.05, "--partition", "iid", "--snapshot", "2-3", "--set", "method.mu=0.2", "--stop-at-target")
    assert fedtrip("run", *SMALL, *same, "--out", "options", "-q").code == 0
    stored = (here / "set/experiment.toml").read_text()
    assert tomllib.loads(stored)["lr"] == 0.05
    assert stored == (here / "options/experiment.toml").read_text()
    fedtrip("run", "set/experiment.toml", "--set", "lr=0.02", "--set", "seed=4", "--out", "changed", "-q")
    changed = tomllib.loads((here / "changed/experiment.toml").read_text())
    assert (changed["lr"], changed["seed"], changed["partition"]) == (0.02, 4, "iid")


def test_snapshots_evaluation_and_the_target(fedtrip, here):
    ended = fedtrip(
        "run", *SMALL, "--rounds", 4, "--snapshot", "1,3-4", "--eval-every", 3, "--target", 0.05, "--stop-at-target",
        "--keep-optimizer-state", "--weight-decay", 0.001, "--mean", 4, "--std", 6, "--out", "mine", "-q",
    )  # fmt: skip
    assert ended.code == 0
    stored = tomllib.loads((here / "mine/experiment.toml").read_text())
    assert (stored["snapshot"], stored["eval_every"], stored["keep_optimizer_state"]) == ([1, 3, 4], 3, True)
    assert (stored["mean"], stored["std"], stored["weight_decay"]) == ([4.0], [6.0], 0.001)
    assert read_summary(here / "mine")["rounds"] == 3
    assert sorted(path.name for path in (here / "mine/snapshots").iterdir()) == ["round-0001", "round-0003"]


def test_overwrite(fedtrip, here):
    fedtrip("run", *SMALL, "--out", "mine", "-q")
    (here / "mine/notes.txt").write_text("keep me")
    assert fedtrip("run", *SMALL, "--out", "mine", "-q").code == 2
    assert fedtrip("run", *SMALL, "--method", "fedavg", "--out", "mine", "-q", "--overwrite").code == 0
    assert read_summary(here / "mine")["method"] == "fedavg"
    assert (here / "mine/notes.txt").read_text() == "keep me"


def test_evaluate_tests_the_stored_model(fedtrip, here):
    fedtrip("run", *SMALL, "--out", "mine", "-q")
    last = json.loads((here / "mine/metrics.jsonl").read_text().splitlines()[-1])["scores"]
    assert (
        f"accuracy of the final model {last['accuracy']:.2%}, loss {last['loss']:.4f}"
        in fedtrip("evaluate", "mine").out
    )
    printed = json.loads(fedtrip("evaluate", "mine", "--json").out)
    assert (printed["accuracy"], printed["loss"]) == (last["accuracy"], last["loss"])
    assert package.evaluate("mine") == last
    for argument, message in (("absent", "'absent' is not a run"), (".", "'.' is not a run")):
        ended = fedtrip("evaluate", argument)
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err


def test_a_run_that_diverges_ends_with_code_1_and_a_complete_folder(fedtrip, here):
    ended = fedtrip(
        "run", *SMALL, "--rounds", 60, "--local-epochs", 5, "--set", "method.mu=500",
        "--out", "mine", "--json",
    )  # fmt: skip
    assert ended.code == 1
    assert "ended early: round" in ended.err
    assert "the training diverged: a smaller learning rate or regulariser may help" in ended.err
    summary = read_summary(here / "mine")
    assert json.loads(ended.out)["ended"] == summary["ended"] is not None
    assert (here / "mine/model.safetensors").is_file()
    assert len((here / "mine/metrics.jsonl").read_text().splitlines()) == summary["rounds"] < 60
    assert fedtrip("evaluate", "mine").code == 0


def test_uploads_that_are_left_out_are_told(fedtrip, here):
    """One client's data overflow, the others' do not: the round goes on without it."""
    import numpy as np

    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 4)).astype(np.float32)
    inputs[:20] *= np.float32(1e30)
    np.savez(
        here / "split.npz", x_train=inputs, y_train=np.arange(60) % 2, x_test=inputs[40:], y_test=np.arange(20) % 2,
        client_train=np.repeat([0, 1, 2], 20),
    )  # fmt: skip
    ended = fedtrip(
        "run", "--dataset", "npz:split.npz", "--mean", 0, "--std", 1, "--rounds", 2, "--per-round", 3,
        "--local-epochs", 3, "--out", "mine",
    )  # fmt: skip
    assert ended.code == 0
    assert "warning: round 1: left out of the average: client 0: 'w' is not finite" in ended.err
    first = json.loads((here / "mine/metrics.jsonl").read_text().splitlines()[0])
    assert first["refused"] == {"0": "'w' is not finite"}
    assert read_summary(here / "mine")["refused_uploads"] == 2


METHOD = """
from dataclasses import dataclass
from typing import Annotated
from pydantic import Field
import fedtrip

@dataclass(frozen=True)
class Pull(fedtrip.Method):
    '''step g + strength·(w_k − w)'''

    title = "FedProx by another name"
    strength: Annotated[float, Field(ge=0)] = 0.1

    def client(self, received, memory, local):
        w = received["w"]
        return fedtrip.Reply(upload=local.train(received, fedtrip.Affine(self.strength, -self.strength * w)))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_method_of_ones_own_in_the_working_folder(fedtrip, here, workers, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (here / "pulling_method.py").write_text(METHOD)
    ours = fedtrip(
        "run", *SMALL, "--method", "pulling_method:Pull", "--set", "method.strength=0.3", "--workers", workers, "--json"
    )
    theirs = fedtrip("run", *SMALL, "--method", "fedprox", "--set", "method.mu=0.3", "--json")
    assert json.loads(ours.out)["model_sha256"] == json.loads(theirs.out)["model_sha256"]
    refused = fedtrip("run", *SMALL, "--method", "pulling_method:Pull", "--set", "method.strength=-1")
    assert refused.code == 2
    assert "option 'strength' is -1; accepted: greater than or equal to 0" in refused.err
    sys.modules.pop("pulling_method")


def test_the_installed_command_and_python_m(here):
    """In processes of their own: the method and the model lie in the working folder, and two workers do the work."""
    (here / "pulling_method.py").write_text(METHOD)
    (here / "my_model.py").write_text(
        "from torch import nn\n"
        "def net(sample_shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, classes))\n"
    )
    found = []
    for workers in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "fedtrip", "run", *map(str, SMALL), "--method", "pulling_method:Pull", "--model",
             "my_model:net", "--json", "--workers", workers, "--out", f"run{workers}"],
            cwd=here, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["model_sha256"])
    assert found[0] == found[1]


def test_a_class_of_a_plain_script_without_a_guard_works_with_two_workers(tmp_path):
    """Its module is `__main__`, which workers must not run again."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "helper.py").write_text("FACTOR = 0.5\n")
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        from dataclasses import dataclass
        import os
        import numpy as np
        from torch import nn
        import fedtrip
        import helper  # beside the script, not in the working folder
        from fedtrip.engines.pool import PoolEngine

        print("started", flush=True)

        @dataclass(frozen=True)
        class Halved(fedtrip.Method):
            def client(self, received, memory, local):
                assert os.getpid() != PARENT or HERE
                trained = local.train(received)
                return fedtrip.Reply({**trained, "w": trained["w"] * helper.FACTOR})

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
            def forward(self, x):
                return self.layer(x) * helper.FACTOR

        PARENT, HERE = os.getpid(), True
        random = np.random.default_rng(0)
        data = (random.normal(size=(40, 4)), np.arange(40) % 2, random.normal(size=(10, 4)), np.arange(10) % 2)
        experiment = fedtrip.Experiment(method=Halved(), rounds=3, clients=4, per_round=4, samples_per_client=10)
        one = fedtrip.run(experiment, data=data, model=Net, workers=1)
        patient = PoolEngine.__init__
        def wait(self, *arguments):
            patient(self, *arguments)
            self.wait_until_ready()
        PoolEngine.__init__ = wait
        HERE = False
        two = fedtrip.run(experiment, data=data, model=Net, workers=2)
        print(one.model_sha256 == two.model_sha256)
        """)
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        cwd=tmp_path / "elsewhere", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["started", "True"], done.stderr
