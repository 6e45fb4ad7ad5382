"""An interrupted run that goes on ends as if it never had been: the same bits, the same metrics but for the seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedtrip as package
from fedtrip import Experiment, UserError

SMALL = {"rounds": 4, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "seed": 27133}
"""Clients 0, 1; then 1, 2; 0, 3; 0, 3: newcomers in three rounds, others that come back after one and two."""
METHODS = ["fedtrip", "feddyn", "scaffold", "mimelite", "feddane", "fedgkd", "slowmo", "moon", "fedavg"]
CRASHES = Path(__file__).parents[1] / "crashes.py"


class Stopped(Exception):
    pass


def stopping_after(last):
    def stop(record):
        if record.round == last:
            raise Stopped

    return stop


def lines(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all(line.pop("seconds") > 0 for line in found)
    return found


def summary(folder):
    """The summary but for the times, and the digests of files that hold times."""
    found = json.loads((folder / "summary.json").read_text())
    return {name: value for name, value in found.items() if name not in ("seconds", "files_sha256", "summary_sha256")}


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("metrics.jsonl", "summary.json")
    }


def assert_same_run(one, other):
    assert lines(one) == lines(other)
    assert summary(one) == summary(other)
    assert files(one) == files(other)


def interrupt_everywhere(experiment, folder, workers=1, **given):
    """Interrupt after every round, go on, and compare; also, interrupt one run after each of its rounds."""
    whole = package.run(experiment, out=folder / "whole", workers=workers, **given)
    done = len(whole.records)
    for last in range(1, done + 1):
        out = folder / f"after{last}"
        with pytest.raises(Stopped):
            package.run(experiment, out=out, workers=workers, on_round=stopping_after(last), **given)
        assert (out / "checkpoint").is_dir()
        seen = []
        again = package.run(experiment, out=out, resume=True, workers=workers, on_round=seen.append, **given)
        assert [record.round for record in seen] == list(range(last + 1, done + 1))
        assert again.model_sha256 == whole.model_sha256
        assert len(again.records) == done
        assert_same_run(out, folder / "whole")
    out = folder / "each"
    for last in range(1, done + 1):
        with pytest.raises(Stopped):
            package.run(experiment, out=out, resume=True, workers=1, on_round=stopping_after(last), **given)
    assert package.run(experiment, out=out, resume=True, workers=1, **given).model_sha256 == whole.model_sha256
    assert_same_run(out, folder / "whole")
    return whole


@pytest.mark.parametrize("method", METHODS)
def test_a_run_interrupted_after_any_round(method, blobs, tmp_path):
    options = {"fedgkd": {"models": 2}, "scaffold": {"option": "II"}}.get(method, {})
    experiment = Experiment(**SMALL, method={"name": method, **options})
    interrupt_everywhere(experiment, tmp_path, data=blobs)


@pytest.mark.parametrize("method", ["fedtrip", "scaffold", "moon"])
def test_with_batch_norm_kept_momentum_and_snapshots(method, blobs, batch_norm_model, tmp_path):
    experiment = Experiment(
        **SMALL, method=method, momentum=0.9, keep_optimizer_state=True, snapshot=(1, 3), eval_every=3,
        weight_decay=0.01, local_epochs=2,
    )  # fmt: skip
    interrupt_everywhere(experiment, tmp_path, data=blobs, model=batch_norm_model)
    assert sorted(path.name for path in (tmp_path / "after2/snapshots").iterdir()) == ["round-0001", "round-0003"]


def test_a_run_that_stops_at_its_target(blobs, tmp_path):
    experiment = Experiment(**{**SMALL, "rounds": 30, "seed": 3}, target=0.6, stop_at_target=True)
    whole = interrupt_everywhere(experiment, tmp_path, data=blobs)
    assert 1 < len(whole.records) < 30


def test_a_run_that_diverges(blobs, tmp_path):
    experiment = Experiment(
        **{**SMALL, "rounds": 60, "local_epochs": 5, "lr": 0.5}, method={"name": "fedtrip", "mu": 50.0}
    )
    whole = package.run(experiment, data=blobs, out=tmp_path / "whole", workers=1)
    assert whole.ended is not None
    with pytest.raises(Stopped):
        package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, on_round=stopping_after(2))
    again = package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
    assert again.ended == whole.ended
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_memories_that_do_not_fit_into_ram(blobs, tmp_path, monkeypatch):
    experiment = Experiment(**{**SMALL, "rounds": 6}, method="fedtrip")
    whole = package.run(experiment, data=blobs, workers=1)
    from fedtrip.rounds.memories import ClientStore

    monkeypatch.setattr(ClientStore.__init__, "__defaults__", (None, 1))
    assert package.run(experiment, data=blobs, workers=1).model_sha256 == whole.model_sha256
    assert interrupt_everywhere(experiment, tmp_path, data=blobs).model_sha256 == whole.model_sha256


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedtrip", "scaffold", "feddane"])
def test_with_two_workers(method, blobs, tmp_path, monkeypatch):
    from fedtrip.engines.pool import PoolEngine

    work = PoolEngine.work

    def by_workers(engine, jobs):
        engine.wait_until_ready()  # or this process does the work of such short runs
        return work(engine, jobs)

    monkeypatch.setattr(PoolEngine, "work", by_workers)
    interrupt_everywhere(Experiment(**{**SMALL, "rounds": 3}, method=method), tmp_path, workers=2, data=blobs)


def test_another_number_of_workers_may_go_on(blobs, tmp_path):
    experiment = Experiment(**SMALL, method="scaffold")
    whole = package.run(experiment, data=blobs, out=tmp_path / "whole", workers=1)
    with pytest.raises(Stopped):
        package.run(experiment, data=blobs, out=tmp_path / "run", workers=2, on_round=stopping_after(2))
    assert package.run(experiment, data=blobs, out=tmp_path / "run", resume=True).model_sha256 == whole.model_sha256
    assert_same_run(tmp_path / "run", tmp_path / "whole")


# ---- killed


def crashed(cases, folder):
    ended = subprocess.run(
        [sys.executable, str(CRASHES), str(folder)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_run_killed_at_any_moment_of_a_round(tmp_path):
    case = {"experiment": {**SMALL, "method": "fedtrip", "rounds": 2, "snapshot": [2]}}
    (answer,) = crashed([case], tmp_path)
    assert answer["wrong"] == []
    assert answer["kills"] == len(answer["moments"]) > 40
    names = "experiment.toml", "metrics.jsonl", "server-2.safetensors", "global.safetensors", "summary.json"
    for moment in (
        "half a line",
        "line",
        "unlink",
        *(f"{when} {name}" for when in ("before", "after") for name in names),
    ):
        assert moment in answer["moments"]
    assert any(name.startswith("half .") for name in answer["moments"])


@pytest.mark.parametrize(
    "methods",
    [
        pytest.param(["fedtrip", "scaffold", "feddane"], marks=pytest.mark.slow),
        pytest.param(METHODS, marks=pytest.mark.cross),
    ],
    ids=["few", "all"],
)
def test_runs_killed_at_every_moment_and_again_and_again(tmp_path, methods):
    cases = [
        {"experiment": {**SMALL, "method": method, "rounds": 3}, "chains": 4, "seed": number}
        for number, method in enumerate(methods)
    ]
    everything = {
        **SMALL, "method": "fedtrip", "snapshot": [1, 2], "momentum": 0.9, "keep_optimizer_state": True,
        "eval_every": 2, "target": 0.5, "stop_at_target": True,
    }  # fmt: skip
    cases.append({"experiment": everything, "normalised": True, "chains": 4})
    answers = crashed(cases, tmp_path)
    assert [answer["wrong"] for answer in answers] == [[] for _ in cases]
    assert sum(answer["kills"] for answer in answers) > 50 * len(cases)


@pytest.mark.slow
def test_runs_with_two_workers_killed(tmp_path):
    case = {"experiment": {**SMALL, "method": "scaffold", "rounds": 3}, "workers": 2, "every": 7}
    (answer,) = crashed([case], tmp_path)
    assert answer["wrong"] == []


def test_runs_whose_every_state_is_synced_killed_at_any_moment_and_at_random(tmp_path):
    few = {"experiment": {**SMALL, "method": "fedtrip", "rounds": 2, "attack": "dropout:0.2"}, "synced": True}
    moments, at_random, by_time = crashed(
        [
            {**few, "every": 5},
            {**few, "random_kills": 10},
            {**few, "random_kills": 10, "checkpoint_every": None, "seconds_between_saves": 0.01},
        ],
        tmp_path,
    )
    assert moments["wrong"] == at_random["wrong"] == by_time["wrong"] == []
    assert "after synced.safetensors" in moments["moments"]
    assert (at_random["kills"] >= 10, by_time["kills"] >= 10) == (True, True)


def test_what_a_killed_process_left_half_written_goes_and_nothing_else(blobs, tmp_path):
    experiment = Experiment(**SMALL, snapshot=(1,))
    with pytest.raises(Stopped):
        package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, on_round=stopping_after(2))
    half = [".model.safetensors.99.tmp.safetensors", ".summary.json.7.tmp.json", ".tmpmaCITC"]  # the last: safetensors'
    for folder in ("", "snapshots/round-0001/", "checkpoint/clients/"):
        for name in half:
            (tmp_path / "run" / folder / name).write_text("half")
    for name in (".gitignore", ".notes.tmp", ".tmp-mine"):
        (tmp_path / "run" / name).write_text("mine")
    package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
    left = {path.name for path in (tmp_path / "run").rglob(".*")}
    assert left == {".gitignore", ".notes.tmp", ".tmp-mine"}


# ---- what is asked for


def test_a_finished_run_is_returned_and_not_run(blobs, tmp_path, listing, monkeypatch):
    experiment = Experiment(**SMALL)
    first = package.run(experiment, data=blobs, out=tmp_path / "run", workers=1)
    before = listing(tmp_path / "run")
    monkeypatch.setattr("fedtrip.rounds.loop.one_round", None)
    again = package.run(
        experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1, on_round=lambda _: pytest.fail("it ran")
    )
    assert listing(tmp_path / "run") == before
    assert again.model_sha256 == first.model_sha256
    assert again.records == first.records
    assert again.summary() == first.summary()
    assert {k: v.tolist() for k, v in again.module.state_dict().items()} == {
        k: v.tolist() for k, v in first.module.state_dict().items()
    }


def test_resuming_begins_where_nothing_is(blobs, tmp_path):
    experiment = Experiment(**SMALL)
    whole = package.run(experiment, data=blobs, workers=1)
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty", "some/where"):
        again = package.run(experiment, data=blobs, out=tmp_path / name, resume=True, workers=1)
        assert again.model_sha256 == whole.model_sha256
        assert not (tmp_path / name / "checkpoint").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "its seed is 27133, here it is 1"),
        ({"rounds": 5}, "its rounds is 4, here it is 5"),
        ({"method": "fedavg"}, "its method is {'name': 'fedtrip'"),
        ({"method": {"name": "fedtrip", "mu": 0.5}}, "its method is"),
        ({"lr": 0.02}, "its lr is 0.01, here it is 0.02"),
        ({"target": 0.5}, "its target is None, here it is 0.5"),
        ({"snapshot": (1,)}, "its snapshot is [], here it is [1]"),
    ],
    ids=str,
)
@pytest.mark.parametrize("finished", [True, False])
def test_another_experiment_is_refused(changes, message, finished, blobs, tmp_path, listing):
    out = tmp_path / "run"
    try:
        package.run(
            Experiment(**SMALL), data=blobs, out=out, workers=1, on_round=None if finished else stopping_after(2)
        )
    except Stopped:
        assert not finished
    before = listing(out)
    with pytest.raises(UserError) as refused:
        package.run(Experiment(**{**SMALL, **changes}), data=blobs, out=out, resume=True, workers=1)
    assert "holds another experiment: " in str(refused.value)
    assert message in str(refused.value)
    assert listing(out) == before


def test_other_data_are_another_experiment(blobs, tmp_path):
    with pytest.raises(Stopped):
        package.run(Experiment(**SMALL), data=blobs, out=tmp_path / "run", workers=1, on_round=stopping_after(1))
    moved = {**blobs, "x_train": blobs["x_train"] + 1}
    with pytest.raises(UserError, match="holds another experiment: its dataset is"):
        package.run(Experiment(**SMALL), data=moved, out=tmp_path / "run", resume=True, workers=1)


def test_overwriting_an_interrupted_run_begins_anew(blobs, tmp_path):
    with pytest.raises(Stopped):
        package.run(Experiment(**SMALL), data=blobs, out=tmp_path / "run", workers=1, on_round=stopping_after(2))
    other = Experiment(**{**SMALL, "seed": 3}, method="scaffold")
    again = package.run(other, data=blobs, out=tmp_path / "run", overwrite=True, workers=1)
    assert again.model_sha256 == package.run(other, data=blobs, workers=1).model_sha256
    assert not (tmp_path / "run/checkpoint").exists()


# ---- the command line

ARGUMENTS = ("--rounds", 3, "--clients", 4, "--per-round", 2, "--samples-per-client", 30, "--batch-size", 10, "-q")


def stop_in(monkeypatch, last):
    """The next `fedtrip run` dies after this round."""
    from fedtrip.runs.writer import RunWriter

    record = RunWriter.record

    def recorded(self, what, state):
        record(self, what, state)
        if what.round == last:
            raise Stopped

    monkeypatch.setattr(RunWriter, "record", recorded)


def test_the_same_command_line_begins_goes_on_and_is_done(fedtrip, here, monkeypatch):
    assert fedtrip("run", *ARGUMENTS, "--out", "whole").code == 0
    with monkeypatch.context() as patched:
        stop_in(patched, 2)
        with pytest.raises(Stopped):
            fedtrip("run", *ARGUMENTS, "--resume", "--out", "mine")
    assert not (here / "mine/summary.json").exists()
    for _ in range(2):  # the second time it is finished
        ended = fedtrip("run", *ARGUMENTS, "--resume", "--out", "mine", "--json")
        assert ended.code == 0
        assert json.loads(ended.out)["model_sha256"] == summary(here / "whole")["model_sha256"]
    assert_same_run(here / "mine", here / "whole")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--resume", "--overwrite", "--out", "mine"), "--overwrite and --resume exclude each other"),
        (("--resume",), "--resume needs to know which run"),
        (("--resume", "--seed", 1, "--out", "mine"), "holds another experiment: its seed is 0, here it is 1"),
        (("--out", "mine"), "holds a run already; accepted: another folder, --overwrite or --resume"),
        (("--resume", "--out", "foreign"), "is not empty and holds no run"),
        (("--resume", "--out", "damaged"), "server-2.safetensors' cannot be read: "),
        (("--resume", "--out", "short"), "has 1 rounds, its checkpoint 2"),
    ],
    ids=str,
)
def test_what_cannot_be_resumed_ends_with_code_2(arguments, message, fedtrip, here, monkeypatch, listing):
    with monkeypatch.context() as patched:
        stop_in(patched, 2)
        for name in ("mine", "damaged", "short"):
            with pytest.raises(Stopped):
                fedtrip("run", *ARGUMENTS, "--out", name)
    server = here / "damaged/checkpoint/server-2.safetensors"
    server.write_bytes(server.read_bytes()[:-1])
    (here / "short/metrics.jsonl").write_text((here / "short/metrics.jsonl").read_text().splitlines()[0] + "\n")
    (here / "foreign").mkdir()
    (here / "foreign/notes.txt").write_text("mine")
    before = listing(here)
    ended = fedtrip("run", *ARGUMENTS, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert ended.err.count("\n") == 1
    assert listing(here) == before


def test_overwrite_and_resume_are_refused_from_python_too(blobs, tmp_path):
    with pytest.raises(UserError, match="--overwrite and --resume exclude each other"):
        package.run(Experiment(**SMALL), data=blobs, out=tmp_path / "run", overwrite=True, resume=True)
    assert not (tmp_path / "run").exists()
