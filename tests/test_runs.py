"""The run folder: what is in it, and whose files are never touched."""

import json
import math
import os
import re

import pytest
import torch
from safetensors.torch import load_file

import fedtrip
from fedtrip import Experiment, UserError
from fedtrip.runs import check_folder, check_out, read_records, read_summary, unused_folder, write_model

SMALL = {"rounds": 4, "clients": 4, "per_round": 2, "samples_per_client": 20, "batch_size": 10}


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_files_and_their_fields(blobs, tmp_path):
    result = fedtrip.run(Experiment(**SMALL, target=0.99), data=blobs, out=tmp_path / "run", workers=1)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "experiment.toml", "metrics.jsonl", "model.safetensors", "summary.json"
    }  # fmt: skip
    assert len(lines(tmp_path / "run")) == 4
    for number, line in enumerate(lines(tmp_path / "run"), 1):
        assert list(line)[:9] == [
            "round", "accuracy", "loss", "clients", "bytes_down", "bytes_up", "macs", "seconds", "refused"
        ]  # fmt: skip
        assert line["round"] == number
        assert len(line["clients"]) == 2
        assert line["refused"] == {}
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary.keys() >= {
        "method", "rounds", "rounds_to_target", "final_accuracy", "best_accuracy", "gflops", "megabytes",
        "model_sha256", "seconds", "versions",
    }  # fmt: skip
    assert summary["rounds_to_target"] is None
    assert summary["method"] == "fedtrip"
    assert summary["ended"] is None
    assert summary["versions"].keys() >= {"fedtrip", "torch", "numpy", "python"}
    traffic = sum(line["bytes_down"] + line["bytes_up"] for line in lines(tmp_path / "run"))
    assert summary["megabytes"] == pytest.approx(traffic / 1e6)
    assert summary["seconds"] == pytest.approx(sum(line["seconds"] for line in lines(tmp_path / "run")))
    stored = load_file(tmp_path / "run/model.safetensors")
    assert stored.keys() == result.state.keys()
    assert all(torch.equal(stored[name], value) for name, value in result.state.items())


def test_rounds_to_target_are_those_of_the_records(blobs, tmp_path):
    fedtrip.run(Experiment(**SMALL, target=0.3), data=blobs, out=tmp_path, workers=1)
    summary = read_summary(tmp_path)
    reached = next(line["round"] for line in lines(tmp_path) if line["accuracy"] >= 0.3)
    assert summary["rounds_to_target"] == reached
    spent = sum(line["bytes_down"] + line["bytes_up"] for line in lines(tmp_path)[:reached])
    assert summary["megabytes_to_target"] == pytest.approx(spent / 1e6)


def test_snapshots_are_the_models_of_their_rounds(blobs, tmp_path):
    shorter = fedtrip.run(Experiment(**{**SMALL, "rounds": 2}, method="fedavg"), data=blobs, workers=1)
    fedtrip.run(Experiment(**SMALL, method="fedavg", snapshot=(2, 4)), data=blobs, out=tmp_path, workers=1)
    folder = tmp_path / "snapshots"
    assert sorted(path.name for path in folder.iterdir()) == ["round-0002", "round-0004"]
    clients = lines(tmp_path)[1]["clients"]
    assert sorted(path.name for path in (folder / "round-0002").iterdir()) == sorted(
        ["global.safetensors", *(f"client-{client}.safetensors" for client in clients)]
    )
    kept = load_file(folder / "round-0002/global.safetensors")
    assert all(torch.equal(kept[name], value) for name, value in shorter.state.items())
    local = [load_file(folder / f"round-0002/client-{client}.safetensors") for client in clients]
    for name, value in kept.items():
        assert torch.allclose(value, (local[0][name] + local[1][name]) / 2, atol=1e-6)
    last = load_file(folder / "round-0004/global.safetensors")
    assert all(torch.equal(last[name], value) for name, value in load_file(tmp_path / "model.safetensors").items())


def test_rounds_that_are_not_evaluated(blobs, tmp_path):
    fedtrip.run(Experiment(**{**SMALL, "rounds": 5}, eval_every=2), data=blobs, out=tmp_path, workers=1)
    assert [line["accuracy"] is not None for line in lines(tmp_path)] == [False, True, False, True, True]


def test_it_stops_at_the_target(blobs, tmp_path):
    experiment = Experiment(**{**SMALL, "rounds": 50}, target=0.4, stop_at_target=True)
    fedtrip.run(experiment, data=blobs, out=tmp_path, workers=1)
    summary = read_summary(tmp_path)
    assert summary["rounds"] == summary["rounds_to_target"] == len(lines(tmp_path)) < 50
    assert summary["ended"] is None
    assert all(line["accuracy"] < 0.4 for line in lines(tmp_path)[:-1])


def diverging(**fields):
    return Experiment(
        method={"name": "fedtrip", "mu": 50.0, "xi": "gap"}, **{**SMALL, "rounds": 60, "local_epochs": 5, **fields}
    )


def test_a_run_that_diverges_ends_with_its_last_good_model_and_a_complete_folder(blobs, tmp_path):
    result = fedtrip.run(diverging(), data=blobs, out=tmp_path, workers=1)
    summary = read_summary(tmp_path)
    assert summary["ended"] == result.ended
    assert re.match(r"round \d+: ", summary["ended"])
    assert "the training diverged" in summary["ended"]
    assert 0 < summary["rounds"] == len(lines(tmp_path)) < 60
    assert all(torch.isfinite(value).all() for value in load_file(tmp_path / "model.safetensors").values())
    for name in ("metrics.jsonl", "summary.json"):
        assert not any(word in (tmp_path / name).read_text() for word in ("NaN", "Infinity"))
    assert fedtrip.load_result(tmp_path).ended == result.ended
    for ours, stored in zip(result.records, read_records(tmp_path), strict=True):
        assert stored.loss == (ours.loss if ours.loss is not None and math.isfinite(ours.loss) else None)


def test_overwriting_removes_the_old_run_and_nothing_else(blobs, tmp_path):
    out = tmp_path / "run"
    fedtrip.run(Experiment(**SMALL, snapshot=(1,)), data=blobs, out=out, workers=1)
    foreign = [out / "notes.txt", out / "sub/own.safetensors", out / "snapshots/mine.txt"]
    foreign.append(out / "snapshots/round-0001/mine.txt")
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    with pytest.raises(UserError, match="holds a run already"):
        fedtrip.run(Experiment(**SMALL), data=blobs, out=out, workers=1)
    fedtrip.run(Experiment(**SMALL, method="fedavg"), data=blobs, out=out, overwrite=True, workers=1)
    assert read_summary(out)["method"] == "fedavg"
    assert all(path.read_text() == "mine" for path in foreign)
    assert list(out.rglob("client-*.safetensors")) == []


def test_folders_that_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/own.txt").write_text("")
    (tmp_path / "empty").mkdir()
    check_out(tmp_path / "empty", overwrite=False)
    check_out(tmp_path / "a/new/one", overwrite=False)
    for path, message in (
        ("file", "is a file; accepted: a folder"),
        ("file/below", "is not a folder one may write in"),
        ("full", "is not empty and holds no run; accepted: a new or empty folder"),
    ):
        for overwrite in (False, True):
            with pytest.raises(UserError, match=message):
                check_out(tmp_path / path, overwrite)
    with pytest.raises(UserError, match="holds no comparison"):
        check_folder(tmp_path / "full", "comparison.json", "comparison", True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="is not a folder one may write in"):
        check_out(tmp_path / "run", overwrite=False)


def test_a_folder_that_the_system_refuses(blobs):
    with pytest.raises(UserError, match="--out '/proc/fedtrip-run' cannot be written"):
        fedtrip.run(Experiment(**SMALL), data=blobs, out="/proc/fedtrip-run", workers=1)


def test_new_folders_are_numbered(here):
    names = []
    for _ in range(3):
        folder = unused_folder("fedtrip-my.model:net-npz:a/b c-seed0")
        folder.mkdir(parents=True)
        names.append(folder.relative_to(here / "runs").as_posix())
    stem = "fedtrip-my.model_net-npz_a_b_c-seed0"
    assert names == [stem, f"{stem}-2", f"{stem}-3"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "{", "cannot be read"),
        ("summary.json", "[1]", "does not hold a JSON object"),
        ("metrics.jsonl", "{}\n", "is damaged at line 1"),
        ("metrics.jsonl", "nonsense\n", "is damaged at line 1"),
        ("metrics.jsonl", '{"round": 1}\n', "is damaged at line 1"),
        ("model.safetensors", "nonsense", "cannot be read"),
        ("experiment.toml", "rounds = 0", "rounds is 0"),
    ],
)
def test_damaged_files_of_a_run(blobs, tmp_path, name, content, message):
    fedtrip.run(Experiment(**{**SMALL, "rounds": 1}), data=blobs, out=tmp_path, workers=1)
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        fedtrip.load(tmp_path, data=blobs)


def test_a_stored_model_of_another_shape_is_refused(blobs, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shapes.py").write_text("from torch import nn\nmake = lambda: nn.Linear(6, 3)\n")
    experiment = Experiment(**{**SMALL, "rounds": 1}, model="shapes:make")
    fedtrip.run(experiment, data=blobs, out=tmp_path / "run", workers=1)
    monkeypatch.setattr("shapes.make", lambda: torch.nn.Linear(6, 3, bias=False))
    with pytest.raises(UserError, match="does not fit the experiment"):
        fedtrip.evaluate(tmp_path / "run", data=blobs, trust=True)
    write_model(tmp_path / "run/model.safetensors", torch.nn.Linear(6, 3).state_dict())
    with pytest.raises(UserError, match="is damaged"):
        fedtrip.evaluate(tmp_path / "run", data=blobs, trust=True)
    with pytest.raises(UserError, match=r"is not a run: it has no experiment\.toml"):
        fedtrip.load(tmp_path)
