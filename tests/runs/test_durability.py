"""What a run leaves on the disk: whose it is, what a loss of power leaves of it, and who may write it."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from test_checkpoint import SMALL, Stopped, stopping_after

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.files.lock import FolderLock
from fedtrip.layout import Layout, Travelling
from fedtrip.methods.interface import Memory, Server
from fedtrip.rounds.memories import ClientStore, write_vectors
from fedtrip.rounds.state import FederationState
from fedtrip.runs import checkpoint
from fedtrip.runs.checkpoint import Checkpoint


def interrupted(out, experiment, last=2, **given):
    with pytest.raises(Stopped):
        package.run(experiment, out=out, workers=1, on_round=stopping_after(last), **given)


# ---- memories without vectors


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "slowmo", "mimelite", "fedgkd"])
def test_a_method_that_keeps_nothing_writes_no_file_for_a_client(method, blobs, tmp_path):
    experiment = Experiment(**SMALL, method=method)
    interrupted(tmp_path / "run", experiment, data=blobs)
    assert not (tmp_path / "run/checkpoint/clients").exists()
    stored = load_file(tmp_path / "run/checkpoint/server-2.safetensors")
    assert (stored["bare clients"].tolist(), stored["bare rounds"].tolist()) == ([0, 1, 2], [1, 2, 2])
    whole = package.run(experiment, data=blobs, workers=1)
    again = package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
    assert again.model_sha256 == whole.model_sha256


def test_a_memory_may_lose_its_vectors_and_get_them_back(tmp_path):
    store = ClientStore(tmp_path)
    vectors = {"w": torch.ones(3)}
    store.put(1, Memory(vectors, 1))
    store.write()
    store.put(1, Memory(last_round=2))
    assert (store.get(1).vectors, store.get(1).last_round, len(store)) == ({}, 2, 1)
    store.write()
    assert {path.name for path in tmp_path.iterdir()} == {"1-1.safetensors"}  # round 1 can still be gone back to
    back = ClientStore(tmp_path)
    back.restore({1: 1})
    assert torch.equal(back.get(1)["w"], vectors["w"])
    later = ClientStore(tmp_path)
    later.restore({}, {1: 2})
    assert (later.get(1).vectors, later.get(1).last_round) == ({}, 2)
    store.put(1, Memory(vectors, 3))
    store.write()
    store.forget_outdated(synced=True)
    assert store.bare == {}
    assert {path.name for path in tmp_path.iterdir()} == {"1-3.safetensors"}


def test_a_checkpoint_of_the_first_schema_is_refused_by_name(blobs, tmp_path, listing):
    """It had a file for every memory, also an empty one, and no word about whose it is and which memories it needs."""
    experiment = Experiment(**SMALL, method="fedavg")
    interrupted(tmp_path / "run", experiment, data=blobs)
    server = tmp_path / "run/checkpoint/server.safetensors"
    vectors = load_file(tmp_path / "run/checkpoint/server-2.safetensors")
    (tmp_path / "run/checkpoint/server-2.safetensors").unlink()
    clients, rounds = (vectors.pop(name).tolist() for name in ("bare clients", "bare rounds"))
    write_vectors(server, vectors, {"schema": 1, "round": 2, "memories": len(clients)})
    (tmp_path / "run/checkpoint/synced.safetensors").unlink()
    (tmp_path / "run/checkpoint/clients").mkdir()
    for client, last in zip(clients, rounds, strict=True):
        path = tmp_path / f"run/checkpoint/clients/{client}-{last}.safetensors"
        write_vectors(path, {}, {"client": client, "round": last})
    before = listing(tmp_path / "run")
    with pytest.raises(UserError, match=r"checkpoint/server\.safetensors' has schema version 1; accepted: 3, or the "):
        package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
    assert listing(tmp_path / "run") == before


# ---- whose it is


def test_a_checkpoint_of_another_experiment_is_refused(blobs, tmp_path, listing):
    experiment = Experiment(**SMALL)
    interrupted(tmp_path / "mine", experiment, data=blobs)
    interrupted(tmp_path / "other", experiment.but(seed=8), data=blobs)
    for name in ("server-2", "synced"):
        file = f"checkpoint/{name}.safetensors"
        (tmp_path / "mine" / file).write_bytes((tmp_path / "other" / file).read_bytes())
    before = listing(tmp_path / "mine")
    with pytest.raises(UserError, match="is of another experiment: its seed is 8, here it is 27133; accepted: its own"):
        package.run(experiment, data=blobs, out=tmp_path / "mine", resume=True, workers=1)
    assert listing(tmp_path / "mine") == before


def test_a_data_file_that_changed_is_refused(blobs, tmp_path):
    np.savez(tmp_path / "data.npz", **blobs)
    experiment = Experiment(**SMALL, dataset=f"npz:{tmp_path / 'data.npz'}", mean=0.0, std=1.0)
    interrupted(tmp_path / "run", experiment)
    np.savez(tmp_path / "data.npz", **{**blobs, "x_test": blobs["x_test"] + 1})
    with pytest.raises(UserError, match=r"was begun with another data: its SHA-256 is \w+, here it is \w+; accepted: "):
        package.run(experiment, out=tmp_path / "run", resume=True, workers=1)
    np.savez(tmp_path / "data.npz", **blobs)
    again = package.run(experiment, out=tmp_path / "run", resume=True, workers=1)
    assert again.model_sha256 == package.run(experiment, workers=1).model_sha256


def test_a_factory_that_makes_another_model_is_refused(blobs, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (
        "from torch import nn\nscale = 1.0\ndef make():\n    made = nn.Linear(6, 3)\n    made.weight.data *= scale\n"
    )
    (tmp_path / "factory.py").write_text(source + "    return made\n")
    experiment = Experiment(**SMALL, model="factory:make")
    interrupted(tmp_path / "run", experiment, data=blobs)
    monkeypatch.setattr("factory.scale", 2.0)
    with pytest.raises(UserError, match="was begun with another model: its SHA-256 is"):
        package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)


# ---- a loss of power


class Disk:
    """Knows what of each file has reached the disk: what it held when it was last synced."""

    def __init__(self, monkeypatch):
        self.safe = {}
        fsync = os.fsync

        def synced(descriptor):
            fsync(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_file():
                self.safe[os.fstat(descriptor).st_ino] = path.read_bytes()

        monkeypatch.setattr(os, "fsync", synced)

    def lose_power(self, folder):
        """Names stay, contents that were not synced are gone: the worst that a file system with a journal does."""
        for path in folder.rglob("*"):
            if path.is_file():
                known = self.safe.get(path.stat().st_ino, b"")  # or of another file, whose number was free again
                content = known if path.read_bytes().startswith(known) else b""
                path.unlink()
                path.write_bytes(content)
                self.safe[path.stat().st_ino] = content  # what is left is on the disk


@pytest.mark.parametrize("method", ["fedtrip", "scaffold", "fedavg"])
@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_loss_of_power_leaves_a_whole_state(method, lost, blobs, tmp_path, monkeypatch):
    """Synced after rounds 1 to 3 of 6, then `lost` rounds more that only the system's memory knows of."""
    experiment = Experiment(**{**SMALL, "rounds": 6}, method=method)
    whole = package.run(experiment, data=blobs, workers=1)
    disk, save = Disk(monkeypatch), Checkpoint.save
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SYNCS", 1e9)

    def saved(self, state, *, at_once=False, **given):  # noqa: ARG001
        save(self, state, **given, at_once=state.round <= 3)
        if state.round == 3 + lost:
            raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", saved)
        with pytest.raises(Stopped):
            package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, checkpoint_every=1)
    disk.lose_power(tmp_path / "run")
    if lost:
        newest = tmp_path / f"run/checkpoint/server-{3 + lost}.safetensors"
        with pytest.raises(
            UserError, match=r"removing '.*server-\d.safetensors' goes on from round 3, which is whole$"
        ):
            package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
        newest.unlink()
    seen = []
    again = package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1, on_round=seen.append)
    assert [record.round for record in seen] == [4, 5, 6]
    assert again.model_sha256 == whole.model_sha256
    disk.lose_power(tmp_path / "run")  # a finished run is on the disk as a whole
    assert package.load_result(tmp_path / "run").model_sha256 == whole.model_sha256


def test_the_disk_is_not_waited_for_more_than_once_a_second(blobs, tmp_path, monkeypatch):
    moments, now = [], [1000.0]

    def fsync(_descriptor):
        moments.append(now[0])
        now[0] += 0.05  # a slow disk: what is synced at once may take longer than a second allows for

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def tick(_record):
        now[0] += 0.25

    experiment = Experiment(**{**SMALL, "rounds": 200}, method="fedtrip")
    package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, checkpoint_every=1, on_round=tick)
    spent = 0.05 * len(moments) / (now[0] - 1000)
    assert len(moments) > 8
    assert spent < 0.12  # 2 % while it runs; the beginning and the end of so short a run are the rest


# ---- what a checkpoint folder holds


def test_the_checkpoint_folder_stays_small_however_long_nothing_is_synced(blobs, tmp_path, monkeypatch):
    """Two memories a client at most: that of the newest state, and that of the last synced one."""
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SYNCS", 1e9)
    most = []

    def count(_record):
        most.append(len(list((tmp_path / "run/checkpoint").rglob("*.safetensors"))))

    experiment = Experiment(**{**SMALL, "rounds": 60}, method="fedtrip")
    package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, checkpoint_every=1, on_round=count)
    assert max(most) <= 2 * 5 + 2


@pytest.mark.parametrize("bound", ["OUTDATED_FILES", "OUTDATED_BYTES"])
def test_too_much_that_is_outdated_is_synced_and_forgotten(bound, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_SYNCS", 1e9)
    monkeypatch.setattr(checkpoint, bound, 3 if bound == "OUTDATED_FILES" else 3 * 4000)
    saved = Checkpoint(tmp_path)
    server = Server(model={"w": torch.zeros(3)}, state={}, clients=8, lr=0.1)
    state = FederationState(server, saved.store, Travelling(Layout({}), ()))
    for number in range(1, 7):
        state.round = number
        for client in range(8):
            state.memories.put(client, Memory({"w": torch.zeros(1000)}, number))
        saved.save(state, at_once=number == 1)
        assert len(list((tmp_path / "clients").iterdir())) <= 16
    assert saved.fallback()[1] >= 5
    assert state.memories.outdated()[0] <= 8


def test_garbage_goes_before_anything_is_written(blobs, tmp_path, monkeypatch):
    """A disk may be full of it: what an interrupted process left is removed first."""
    experiment = Experiment(**SMALL, method="fedtrip")
    whole = package.run(experiment, data=blobs, workers=1)
    run = tmp_path / "run"
    interrupted(run, experiment, data=blobs)
    folder = run / "checkpoint"
    garbage = [folder / "clients/0-9.safetensors", folder / "clients/1-1.safetensors", folder / "server-1.safetensors"]
    garbage += [folder / ".server-3.safetensors.99.tmp.safetensors", folder / "clients/.3-3.safetensors.9.tmp"]
    for path in garbage:
        path.write_bytes(b"x" * 1000)
    with (run / "metrics.jsonl").open("a") as file:
        file.write("x" * 1000)
    seen, opened = [], os.open

    def opening(path, flags, *others, **keywords):
        if flags & (os.O_WRONLY | os.O_RDWR):
            seen.append((str(path), [left.name for left in garbage if left.exists()]))
        return opened(path, flags, *others, **keywords)

    import io

    plain = io.open

    def file_opening(path, mode="r", *others, **keywords):
        if set(mode) & set("wax+"):
            seen.append((str(path), [left.name for left in garbage if left.exists()]))
        return plain(path, mode, *others, **keywords)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(io, "open", file_opening)  # what Path.open and Path.write_text call
    again = package.run(experiment, data=blobs, out=run, resume=True, workers=1)
    monkeypatch.undo()
    inside = [left for path, left in seen if path.startswith(str(run))]
    assert inside
    assert inside == [[]] * len(inside)
    assert again.model_sha256 == whole.model_sha256


def test_garbage_of_a_run_without_any_checkpoint_goes_too(blobs, tmp_path):
    experiment = Experiment(**SMALL, method="fedtrip")
    run, seen = tmp_path / "run", []
    with pytest.raises(Stopped):
        package.run(experiment, data=blobs, out=run, workers=1, on_round=stopping_after(1))
    (run / "checkpoint/server-1.safetensors").unlink()
    (run / "checkpoint/synced.safetensors").unlink()
    (run / "checkpoint/clients/4-1.safetensors").write_text("of a round that did not count")
    package.run(
        experiment, data=blobs, out=run, resume=True, workers=1, checkpoint_every=1,
        on_round=lambda _: seen.append((run / "checkpoint/clients/4-1.safetensors").exists()),
    )  # fmt: skip
    assert seen == [False] * 4


# ---- when a checkpoint is written


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(checkpoint.time, "monotonic", lambda: self.now)


@pytest.mark.parametrize(("cost", "wait"), [(0.0, 1.0), (0.03, 1.0), (0.5, 10.0)])
def test_a_checkpoint_is_due_after_a_second_or_twenty_times_its_cost(cost, wait, blobs, tmp_path, monkeypatch):
    clock, moments, save = Clock(monkeypatch), [], Checkpoint.save

    def saved(self, state, **given):
        save(self, state, **given)
        moments.append(clock.now)
        clock.now += cost

    monkeypatch.setattr(Checkpoint, "save", saved)

    def tick(_record):
        clock.now += 0.25

    package.run(Experiment(**{**SMALL, "rounds": 200}), data=blobs, out=tmp_path / "run", workers=1, on_round=tick)
    between = [later - earlier - cost for earlier, later in pairwise(moments)]
    assert moments[0] <= 1001.25
    assert all(wait - 1e-6 <= seconds <= wait + 0.3 for seconds in between)
    assert len(moments) > 3


@pytest.mark.parametrize("where", ["training", "evaluation", "on_round", "recording"])
def test_a_run_that_is_left_by_any_exception_keeps_its_last_finished_round(where, blobs, tmp_path, monkeypatch):
    experiment = Experiment(**{**SMALL, "rounds": 6}, method="scaffold")
    whole = package.run(experiment, data=blobs, workers=1)
    from fedtrip.engines.serial import SerialEngine
    from fedtrip.runs.writer import RunWriter

    calls = []

    def failing(method):
        def called(*arguments, **keywords):
            calls.append(arguments)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return method(*arguments, **keywords)

        return called

    def in_round_4(record):
        if where == "on_round" and record.round == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if where != "on_round":
            owner, name = {
                "training": (SerialEngine, "work"),
                "evaluation": (SerialEngine, "score"),
                "recording": (RunWriter, "note"),
            }[where]
            patched.setattr(owner, name, failing(getattr(owner, name)))
        with pytest.raises(KeyboardInterrupt):
            package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, on_round=in_round_4)
    seen = []
    again = package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1, on_round=seen.append)
    # a round whose line could not be written is not finished, and what led up to it was not due yet
    assert seen[0].round == {"on_round": 5, "recording": 1}.get(where, 4)
    assert again.model_sha256 == whole.model_sha256


# ---- every n rounds


@pytest.mark.parametrize("killed_after", [2, 3, 4])
def test_a_checkpoint_every_three_rounds(killed_after, blobs, tmp_path, monkeypatch):
    experiment = Experiment(**{**SMALL, "rounds": 5}, method="scaffold")
    whole = package.run(experiment, data=blobs, out=tmp_path / "whole", workers=1)
    from fedtrip.runs.writer import RunWriter

    note = RunWriter.note

    def noted(self, record):
        note(self, record)
        if record.round == killed_after + 1:
            raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(RunWriter, "note", noted)
        patched.setattr(RunWriter, "save", lambda *_: None)  # a process that is killed saves nothing
        with pytest.raises(Stopped):
            package.run(experiment, data=blobs, out=tmp_path / "run", workers=1, checkpoint_every=3)
    seen = []
    again = package.run(
        experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1, checkpoint_every=3, on_round=seen.append
    )
    assert seen[0].round == (1 if killed_after == 2 else 4)
    assert again.model_sha256 == whole.model_sha256
    lines = [[json.loads(line) for line in (tmp_path / n / "metrics.jsonl").open()] for n in ("whole", "run")]
    assert [{**line, "seconds": 0} for line in lines[0]] == [{**line, "seconds": 0} for line in lines[1]]


def test_who_leaves_between_rounds_loses_none(blobs, tmp_path):
    experiment = Experiment(**SMALL)
    with pytest.raises(Stopped):
        package.run(
            experiment, data=blobs, out=tmp_path / "run", workers=1, checkpoint_every=100, on_round=stopping_after(3)
        )
    seen = []
    package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1, on_round=seen.append)
    assert [record.round for record in seen] == [4]
    with pytest.raises(UserError, match="checkpoint_every is 0; accepted: at least 1"):
        package.run(experiment, data=blobs, out=tmp_path / "new", workers=1, checkpoint_every=0)


# ---- one writer

HOLDER = """
import sys
import tempfile
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from fedtrip.files.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_folder_that_another_process_writes_is_refused_until_that_is_killed(command, fedtrip, here, monkeypatch):
    small = ("--rounds", 1, "--clients", 2, "--per-round", 1, "--samples-per-client", 20, "--workers", 1, "-q")
    small += ("--methods", "fedavg", "--trials", 1) if command == "compare" else ()
    monkeypatch.setattr("fedtrip.files.lock.PATIENCE", 0.1)
    (here / "out").mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(here / "out")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "locked\n"
        ended = fedtrip(command, *small, "--out", "out")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "is being written by another process; accepted: another folder" in ended.err
        assert list((here / "out").iterdir()) == []
    finally:
        holder.kill()
        holder.communicate()
    assert fedtrip(command, *small, "--out", "out").code == 0


def test_a_lock_is_given_back_by_every_way_out(blobs, tmp_path):
    experiment = Experiment(**SMALL)
    interrupted(tmp_path / "run", experiment, data=blobs)
    FolderLock(tmp_path / "run").release()
    with pytest.raises(UserError, match="another experiment"):
        package.run(experiment.but(seed=1), data=blobs, out=tmp_path / "run", resume=True, workers=1)
    FolderLock(tmp_path / "run").release()
    for _ in range(2):
        package.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
        FolderLock(tmp_path / "run").release()


# ---- a disk that is full


def limited(largest):
    """The next process can write no file beyond so many bytes: what a full disk does, for one process."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))


@pytest.mark.parametrize(("command", "largest"), [("run", 300), ("run", 27_200), ("compare", 20_000)])
def test_a_full_disk_ends_with_one_line_and_what_was_good_stays_so(command, largest, fedtrip, here):
    arguments = [sys.executable, "-m", "fedtrip", command, "--rounds", "9", "--clients", "3", "--per-round", "2"]
    arguments += ["--samples-per-client", "20", "--resume", "--out", "out", "--quiet", "--json", "--workers", "1"]
    arguments += ["--methods", "fedtrip", "--trials", "1"] if command == "compare" else ["--checkpoint-every", "1"]
    full = subprocess.run(arguments, cwd=here, capture_output=True, text=True, preexec_fn=limited(largest))
    assert (full.returncode, full.stdout) == (2, ""), full.stderr
    assert "Traceback" not in full.stderr
    assert full.stderr.count("\n") == 1
    assert "cannot be written: " in full.stderr
    assert fedtrip(*arguments[3:]).code == 0
    run = here / "out" if command == "run" else here / "out/runs/fedtrip/0"
    stored = package.load_result(run)
    assert stored.model_sha256 == package.run(stored.experiment, workers=1).model_sha256
    assert not list(here.rglob(".*"))


@contextmanager
def read_only(folder):
    """Nothing can be written there, not even by root, who is somebody else meanwhile."""
    every = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in (*every, *folder.rglob("*")):
        path.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path in every:
            path.chmod(0o755)


def test_a_folder_that_became_read_only_is_told_and_left_as_it_was(blobs, listing):
    experiment = Experiment(**SMALL)
    whole = package.run(experiment, data=blobs, workers=1)
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are closed to others
        os.chmod(place, 0o755)
        run = Path(place) / "run"
        interrupted(run, experiment, data=blobs)
        before = listing(run)
        with read_only(run), pytest.raises(UserError, match=r"--out '.*' cannot be written: "):
            package.run(experiment, data=blobs, out=run, resume=True, workers=1)
        assert listing(run) == before
        again = package.run(experiment, data=blobs, out=run, resume=True, workers=1)
        assert again.model_sha256 == whole.model_sha256


def test_a_header_says_whose_checkpoint_it_is(blobs, tmp_path):
    interrupted(tmp_path / "run", Experiment(**SMALL), data=blobs)
    with safe_open(tmp_path / "run/checkpoint/server-2.safetensors", framework="pt") as stored:
        header = json.loads(stored.metadata()["fedtrip"])
    assert header["schema"] == 3
    assert header["origin"].keys() == {"data", "model"}
    assert header["experiment"] == (tmp_path / "run/experiment.toml").read_text()
