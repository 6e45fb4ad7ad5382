"""TensorBoard event files: a consumer of the rounds' records."""

from __future__ import annotations

import sys

import pytest

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.runs.event_files import EventFiles

SMALL = ["--rounds", 3, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "-q", "--workers", 1]


def scalars(folder) -> dict[str, dict[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def test_a_run_writes_what_its_records_say(here, fedtrip):
    ended = fedtrip("run", *SMALL, "--tensorboard", "--out", "run")
    assert ended.code == 0, ended.err
    found, records = scalars(here / "run/tensorboard"), package.load_result("run").records
    for record in records:
        assert found["test/accuracy"][record.round] == pytest.approx(record.accuracy)
        assert found["test/loss"][record.round] == pytest.approx(record.loss)
    assert found["cost/megabytes"][3] == pytest.approx(sum(r.bytes_down + r.bytes_up for r in records) / 1e6)
    assert found["cost/gmacs"][3] == pytest.approx(sum(r.macs for r in records) / 1e9)
    assert set(found["round/refused"].values()) == {0.0}


def test_overwriting_a_run_removes_its_event_files(here, fedtrip):
    fedtrip("run", *SMALL, "--tensorboard", "--out", "run")
    fedtrip("run", *SMALL, "--overwrite", "--out", "run")
    assert not (here / "run/tensorboard").exists()


def test_every_trial_of_a_comparison_has_its_own(here, fedtrip):
    ended = fedtrip("compare", *SMALL, "--methods", "fedavg", "--trials", 2, "--tensorboard", "--out", "cmp")
    assert ended.code == 0, ended.err
    for seed in (0, 1):
        assert set(scalars(here / f"cmp/runs/fedavg/{seed}/tensorboard")["test/accuracy"]) == {1, 2, 3}


def test_the_sums_of_a_resumed_run_go_on(tmp_path):
    class Enough(Exception):
        pass

    experiment = Experiment(rounds=3, clients=4, per_round=2, samples_per_client=30)

    def stop(record):
        events(record)
        if record.round == 2:
            raise Enough

    with EventFiles.of_run(tmp_path / "run") as events, pytest.raises(Enough):
        package.run(experiment, out=tmp_path / "run", workers=1, on_round=stop)
    with EventFiles.of_run(tmp_path / "run") as events:
        result = package.run(experiment, out=tmp_path / "run", resume=True, workers=1, on_round=events)
    found = scalars(tmp_path / "run/tensorboard")
    assert set(found["cost/megabytes"]) == {1, 2, 3}
    assert found["cost/megabytes"][3] == pytest.approx(result.costs(3)["megabytes"])


def test_without_the_extra_nothing_is_run_and_the_error_names_it(here, fedtrip, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    ended = fedtrip("run", *SMALL, "--tensorboard", "--out", "run")
    assert ended.code == 2
    assert "pip install 'fedtrip[tensorboard]'" in ended.err
    assert not (here / "run").exists()
    with pytest.raises(UserError):
        EventFiles(here / "events")
    ended = fedtrip("compare", *SMALL, "--methods", "fedavg", "--tensorboard", "--out", "cmp")
    assert ended.code == 2
    assert not (here / "cmp").exists()
