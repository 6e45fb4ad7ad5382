"""Trials on a real Ray: same bits, one run store, and a lost worker's trial goes on from its last round."""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import fedtrip
from fedtrip import Experiment
from fedtrip.comparison.trials import Trial, run_trials
from fedtrip.errors import UserError
from fedtrip.experiment.federation import prepare
from fedtrip.methods.fedtrip import FedTrip
from fedtrip.runs.folder import read_records, read_summary
from fedtrip.runs.running import run_federation

pytest.importorskip("ray", reason="needs pip install 'fedtrip[ray]'")

from fedtrip.comparison.ray_trials import bring_up_to_date, contents

SMALL = {"rounds": 4, "clients": 4, "per_round": 2, "samples_per_client": 10, "batch_size": 5}


def with_method(federation, method):
    return replace(federation, rules=replace(federation.rules, method=method))


@dataclass(frozen=True)
class Touchy(FedTrip):
    """In another process: writes down its rounds, and dies once."""

    parent: int = 0
    folder: str = ""

    def client(self, received, memory, local):
        if os.getpid() != self.parent:
            with (Path(self.folder) / "rounds").open("a") as file:
                file.write(f"{os.getpid()} {local.round}\n")
            if local.round == 3 and not (Path(self.folder) / "dead").exists():
                (Path(self.folder) / "dead").touch()
                told, deadline = Path(self.folder) / "runs" / "0" / "metrics.jsonl", time.monotonic() + 60
                while time.monotonic() < deadline and not (told.exists() and len(told.read_text().splitlines()) == 2):
                    time.sleep(0.05)  # until the two finished rounds are home
                os.kill(os.getpid(), signal.SIGKILL)
        return super().client(received, memory, local)


@pytest.mark.slow
def test_trials_on_ray_have_the_same_bits_and_a_lost_one_goes_on_elsewhere(blobs, tmp_path):
    data = fedtrip.from_arrays(**blobs)
    federations = [prepare(Experiment(**SMALL, seed=seed), data=data) for seed in range(3)]
    touchy = with_method(federations[0], Touchy(parent=os.getpid(), folder=str(tmp_path)))
    todo = [
        Trial(str(number), lambda federation=federation: federation, tmp_path / "runs" / str(number), 4)
        for number, federation in enumerate([touchy, *federations[1:]])
    ]
    rounds = Counter()
    finished = run_trials(todo, workers=2, on_round=lambda t, _: rounds.update([t.name]), engine="ray")
    assert sorted(trial.name for trial in finished) == ["0", "1", "2"]
    assert rounds == {"0": 4, "1": 4, "2": 4}
    for trial, federation in zip(todo, federations, strict=True):
        here = run_federation(with_method(federation, trial.prepare().method), workers=1)
        assert read_summary(trial.out)["model_sha256"] == here.model_sha256
        assert len(read_records(trial.out)) == 4
        assert {path.name for path in trial.out.iterdir()} == {
            "experiment.toml", "metrics.jsonl", "model.safetensors", "summary.json"
        }  # fmt: skip
    done = [tuple(map(int, line.split())) for line in (tmp_path / "rounds").read_text().splitlines()]
    first, second = (
        sorted({number for pid, number in done if pid == worker}) for worker in dict.fromkeys(p for p, _ in done)
    )
    assert (first, second) == ([1, 2, 3], [3, 4])  # the second worker had the first one's two rounds


@pytest.mark.slow
def test_trials_on_ray_that_are_left_after_a_round_go_on_from_there(blobs, tmp_path):
    federation = prepare(Experiment(**SMALL), data=fedtrip.from_arrays(**blobs))
    rounds = []
    for until in (1, 3, None):
        todo = [Trial("one", lambda: federation, tmp_path / "one", 4, until=until)]
        told = run_trials(todo, workers=1, on_round=lambda _, record: rounds.append(record.round), engine="ray")
        assert [trial.name for trial in told] == ["one"]
        assert rounds == list(range(1, (until or 4) + 1))
    assert read_summary(tmp_path / "one")["model_sha256"] == run_federation(federation, workers=1).model_sha256


@pytest.mark.slow
def test_compare_on_ray_gives_the_same_table(fedtrip, tmp_path):
    options = ["--methods", "fedtrip,fedavg", "--trials", 1, "--rounds", 3, "--quiet"]
    tables = []
    for engine in ("local", "ray"):
        ended = fedtrip("compare", *options, "--engine", engine, "--workers", 2, "--out", tmp_path / engine)
        assert ended.code == 0, ended.err
        tables.append((tmp_path / engine / "table.csv").read_bytes())
    assert tables[0] == tables[1]


def test_files_are_taken_over_in_an_order_that_keeps_the_folder_a_run(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "checkpoint" / "clients").mkdir(parents=True)
    for name in (
        "experiment.toml",
        "metrics.jsonl",
        "checkpoint/server.safetensors",
        "checkpoint/clients/0-1.safetensors",
    ):
        (source / name).write_bytes(name.encode())
    bring_up_to_date(target, contents(source))
    assert contents(target) == contents(source)
    bring_up_to_date(target, {"checkpoint/clients/0-1.safetensors": None, "metrics.jsonl": b"2"})
    assert contents(target) == {
        "experiment.toml": b"experiment.toml",
        "metrics.jsonl": b"2",
        "checkpoint/server.safetensors": b"checkpoint/server.safetensors",
    }
    bring_up_to_date(target, {"summary.json": b"{}"})
    assert not (target / "checkpoint").exists()


def test_options_that_would_do_nothing_are_refused():
    with pytest.raises(UserError, match="--address 'auto' has no meaning here"):
        list(run_trials([], workers=1, on_round=None, address="auto"))
    with pytest.raises(UserError, match="--workers has no meaning with --address"):
        list(run_trials([], workers=1, on_round=None, engine="ray", address="auto"))
