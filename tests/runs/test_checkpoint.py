"""The checkpoint: a run's whole state, and what of a damaged or foreign one is refused, with the folder left alone."""

import json
from dataclasses import dataclass

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.reference.watching import advance

import fedtrip
from fedtrip import Experiment, UserError
from fedtrip.engines.serial import SerialEngine
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.given_data import as_dataset
from fedtrip.families import METHOD
from fedtrip.methods.fedavg import FedAvg
from fedtrip.rounds.memories import ClientStore, write_vectors
from fedtrip.rounds.state import initial_state
from fedtrip.runs.checkpoint import Checkpoint

SMALL = {"rounds": 4, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "seed": 27133}
"""Clients 0, 1; then 1, 2; 0, 3; 0, 3: newcomers in three rounds, others that come back after one and two."""


class Stopped(Exception):
    pass


def stopping_after(last):
    def stop(record):
        if record.round == last:
            raise Stopped

    return stop


@pytest.fixture
def interrupted(blobs, tmp_path):
    """A run that was stopped after round 2 of 4, and what it is called again with."""
    experiment = Experiment(**SMALL, method="fedtrip")
    with pytest.raises(Stopped):
        fedtrip.run(experiment, data=blobs, out=tmp_path / "run", workers=1, on_round=stopping_after(2))
    return tmp_path / "run", experiment


def bits(vectors):
    return {name: (v.dtype, v.shape, v.numpy().tobytes()) for name, v in vectors.items()}


OTHER_RULES = {"upload_codec": "topk:0.1", "server_optimizer": "yogi", "optimizer": "adam"}
"""each of which keeps something from round to round"""


@pytest.mark.parametrize(("method", "rules"), [*((name, {}) for name in METHOD.names()), ("fedavg", OTHER_RULES)])
def test_the_state_comes_back_to_the_bit(method, rules, blobs, batch_norm_model, tmp_path):
    experiment = Experiment(**SMALL, method=method, keep_optimizer_state=True, **rules)
    federation = prepare(experiment, data=as_dataset(blobs, experiment), model=batch_norm_model)
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    state = initial_state(federation, checkpoint.store)
    assert not checkpoint.exists()
    with torch.random.fork_rng(devices=[]):
        for _ in range(3):
            advance(federation, SerialEngine(federation), state)
            checkpoint.save(state)
    assert checkpoint.exists()
    if rules:
        kept = state.memories.get(next(k for k in range(5) if not state.memories.get(k).is_new))
        assert kept.codec.keys() == {"w"}
        assert kept.optimizer.keys() == {"1.mean", "1.square", "1.steps"}
        assert {"server optimizer m", "server optimizer v"} <= state.server.state.keys()
    again = Checkpoint(tmp_path / "checkpoint")
    fresh = initial_state(federation, again.store)
    again.restore(fresh)
    assert (fresh.round, fresh.server.round) == (state.round, state.server.round) == (3, 3)
    assert bits(fresh.server.model) == bits(state.server.model)
    assert bits(fresh.server.state) == bits(state.server.state)
    assert (fresh.server.lr, fresh.server.clients) == (state.server.lr, state.server.clients)
    assert len(fresh.memories) == len(state.memories) == 4
    for client in range(5):
        assert fresh.memories.get(client).last_round == state.memories.get(client).last_round
        assert bits(fresh.memories.get(client).packed()) == bits(state.memories.get(client).packed())
    with torch.random.fork_rng(devices=[]):
        for either in (state, fresh):
            advance(federation, SerialEngine(federation), either)
    assert bits(fresh.server.model) == bits(state.server.model)


def test_a_checkpoint_has_one_file_a_client_and_the_servers(interrupted):
    run, _ = interrupted
    took_part = {client for line in metrics(run) for client in line["clients"]}
    last = {client: line["round"] for line in metrics(run) for client in line["clients"]}
    assert {path.name for path in (run / "checkpoint/clients").iterdir()} == {
        f"{client}-{last[client]}.safetensors" for client in took_part
    }
    assert {path.name for path in (run / "checkpoint").iterdir()} == {
        "clients",
        "server-2.safetensors",
        "synced.safetensors",
    }


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_the_checkpoint_of_a_finished_run_is_gone(interrupted, blobs):
    run, experiment = interrupted
    fedtrip.run(experiment, data=blobs, out=run, resume=True, workers=1)
    assert not (run / "checkpoint").exists()


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 64
    path.write_bytes(content)


def loaded(path):
    """The vectors, independent of the file, which is about to be written over."""
    return {name: vector.clone() for name, vector in load_file(path).items()}


def with_header(**changes):
    """The checkpoint with another header; well made, as another version of fedtrip would."""

    def damage(path):
        with safe_open(path, framework="pt") as stored:
            header = json.loads(stored.metadata()["fedtrip"])
        header.pop("crc32")
        write_vectors(path, loaded(path), {**header, **changes})

    return damage


def forged_header(**changes):
    """Another header, the checksum as it was."""

    def damage(path):
        with safe_open(path, framework="pt") as stored:
            header = {**json.loads(stored.metadata()["fedtrip"]), **changes}
        save_file(loaded(path), path, metadata={"fedtrip": json.dumps(header)})

    return damage


def with_vectors(change):
    def damage(path):
        with safe_open(path, framework="pt") as stored:
            header = json.loads(stored.metadata()["fedtrip"])
        header.pop("crc32")
        write_vectors(path, change(loaded(path)), header)

    return damage


SERVER = "checkpoint/server-2.safetensors"
DAMAGES = {
    "cut": (SERVER, cut, "cannot be read: "),
    "flipped": (SERVER, flip, "cannot be read: it is damaged"),
    "empty": (SERVER, lambda path: path.write_bytes(b""), "cannot be read: "),
    "text": (SERVER, lambda path: path.write_text("hello " * 100), "cannot be read: "),
    "foreign": (SERVER, lambda path: save_file({"a": torch.ones(2)}, path), "cannot be read: "),
    "no-json": (
        SERVER,
        lambda path: save_file({"a": torch.ones(2)}, path, metadata={"fedtrip": "{"}),
        "cannot be read",
    ),
    "a-list": (
        SERVER,
        lambda path: save_file({"a": torch.ones(2)}, path, metadata={"fedtrip": "[1]"}),
        "cannot be read",
    ),
    "next-schema": (
        SERVER,
        with_header(schema=4),
        "has schema version 4; accepted: 3, or the version of fedtrip that ",
    ),
    "earlier-schema": (SERVER, with_header(schema=2), "has schema version 2; accepted: 3, or the version of fedtrip"),
    "memory-of-another-round": (
        SERVER,
        with_vectors(lambda v: {**v, "kept rounds": v["kept rounds"] - 1}),
        "the memory of client 0, '",
    ),
    "forged-round": (SERVER, forged_header(round=1), "cannot be read: it is damaged"),
    "negative-round": (SERVER, forged_header(round=-1), "cannot be read: it is damaged"),
    "no-round": (SERVER, forged_header(round=None), "cannot be read: "),
    "other-model": (
        SERVER,
        with_vectors(lambda v: {name: t[:-1] if name == "model w" else t for name, t in v.items()}),
        "does not fit the experiment; accepted: its own checkpoint",
    ),
    "no-model": (
        SERVER,
        with_vectors(lambda v: {name: t for name, t in v.items() if name != "model w"}),
        "does not fit the experiment",
    ),
    "other-type": (
        SERVER,
        with_vectors(lambda v: {name: t.double() for name, t in v.items()}),
        "does not fit the experiment",
    ),
    "metrics-short": (
        "metrics.jsonl",
        lambda path: path.write_text(path.read_text().splitlines()[0] + "\n"),
        "metrics.jsonl' has 1 rounds, its checkpoint 2",
    ),
    "metrics-empty": ("metrics.jsonl", lambda path: path.write_text(""), "has 0 rounds, its checkpoint 2"),
    "metrics-gone": ("metrics.jsonl", lambda path: path.unlink(), "metrics.jsonl' cannot be read"),
    "metrics-garbage": ("metrics.jsonl", lambda path: path.write_text("{}\n{}\n"), "is damaged at line 1"),
    "metrics-disordered": (
        "metrics.jsonl",
        lambda path: path.write_text("\n".join(path.read_text().splitlines()[::-1])),
        "is damaged: its rounds are not 1 to 2",
    ),
    "experiment-garbage": ("experiment.toml", lambda path: path.write_text("rounds = "), "is not valid TOML"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_refused_and_the_folder_left_as_it_was(name, interrupted, blobs, listing):
    run, experiment = interrupted
    file, damage, message = DAMAGES[name]
    damage(run / file)
    (run / "checkpoint/clients/.3-3.safetensors.99.tmp.safetensors").write_text("half")
    (run / "checkpoint/clients/3-3.safetensors").write_text("of the round under way")
    before = listing(run)
    with pytest.raises(UserError) as refused:
        fedtrip.run(experiment, data=blobs, out=run, resume=True, workers=1)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert listing(run) == before


def test_a_memory_that_is_missing_is_noticed(interrupted, blobs, listing):
    run, experiment = interrupted
    next(iter((run / "checkpoint/clients").iterdir())).unlink()
    before = listing(run)
    with pytest.raises(UserError, match=r"the memory of client \d, '.*\d-\d\.safetensors', is gone"):
        fedtrip.run(experiment, data=blobs, out=run, resume=True, workers=1)
    assert listing(run) == before


@pytest.mark.parametrize("damage", [cut, flip], ids=["cut", "flipped"])
def test_a_damaged_memory_is_noticed_when_it_is_used_and_the_last_good_state_kept(damage, interrupted, blobs):
    run, experiment = interrupted
    whole = fedtrip.run(experiment, data=blobs, workers=1)
    needed = next(c for record in whole.records[2:] for c in record.clients if list(clients(run).glob(f"{c}-*")))
    (file,) = clients(run).glob(f"{needed}-*")
    good = file.read_bytes()
    damage(file)
    with pytest.raises(UserError, match=rf"the memory of a client, '.*{file.name}', cannot be read"):
        fedtrip.run(experiment, data=blobs, out=run, resume=True, workers=1)
    file.write_bytes(good)
    assert fedtrip.run(experiment, data=blobs, out=run, resume=True, workers=1).model_sha256 == whole.model_sha256


def clients(run):
    return run / "checkpoint/clients"


@dataclass(frozen=True)
class Growing(FedAvg):
    """A user's own: its state is of another precision than it began with, some is added on the way, and what a client
    keeps are two names for one vector; an option is None, another a tuple."""

    mode: str | None = None
    shape: tuple[int, ...] = (1, 2)
    weighting = "uniform"

    def start(self, w):
        return {"u": torch.zeros_like(w)}

    def client(self, received, memory, local):  # noqa: ARG002
        trained = local.train(received)
        return fedtrip.Reply(upload=trained, keep={"w": trained["w"], "same": trained["w"], "every": trained["w"][::2]})

    def aggregate(self, server, uploads):
        u = server.state["u"] * 0.5 + uploads.mean("w") * 0.1
        return server.updated(w=uploads.mean("w") - 0.01 * u, u=u, before=server.w, again=server.w)


def test_a_method_of_ones_own_goes_on(blobs, tmp_path):
    experiment = Experiment(**SMALL, method=Growing())
    whole = fedtrip.run(experiment, data=blobs, workers=1)
    with pytest.raises(Stopped):
        fedtrip.run(experiment, data=blobs, out=tmp_path / "run", workers=1, on_round=stopping_after(2))
    again = fedtrip.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1)
    assert again.model_sha256 == whole.model_sha256


def test_a_disk_that_is_full_is_told_and_the_last_good_state_kept(blobs, tmp_path, monkeypatch):
    experiment = Experiment(**SMALL, method="fedtrip")
    whole = fedtrip.run(experiment, data=blobs, workers=1)
    from fedtrip.rounds import memories as store

    save, calls = store.save_file, []

    def full(*arguments, **keywords):
        calls.append(arguments)
        if len(calls) > 7:
            raise OSError(28, "No space left on device")
        save(*arguments, **keywords)

    monkeypatch.setattr(store, "save_file", full)
    with pytest.raises(UserError, match=r"cannot be written: .*No space left on device"):
        fedtrip.run(experiment, data=blobs, out=tmp_path / "run", workers=1, checkpoint_every=1)
    monkeypatch.undo()
    seen = []
    again = fedtrip.run(experiment, data=blobs, out=tmp_path / "run", resume=True, workers=1, on_round=seen.append)
    assert again.model_sha256 == whole.model_sha256
    assert [record.round for record in seen] == [3, 4]


def test_of_two_rounds_that_a_killed_process_left_the_later_one_counts(interrupted, blobs):
    run, experiment = interrupted
    whole = fedtrip.run(experiment, data=blobs, workers=1)
    later, earlier = run / SERVER, run / "checkpoint/server-1.safetensors"
    earlier.write_bytes(later.read_bytes()[:100])  # it is not even looked at
    (run / "checkpoint/server-10.txt").write_text("somebody's")
    seen = []
    again = fedtrip.run(experiment, data=blobs, out=run, resume=True, workers=1, on_round=seen.append)
    assert [record.round for record in seen] == [3, 4]
    assert again.model_sha256 == whole.model_sha256


def test_removing_takes_the_servers_file_first(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    (tmp_path / "checkpoint/clients").mkdir(parents=True)
    (tmp_path / "checkpoint/server-12.safetensors").write_text("x")
    monkeypatch.setattr("fedtrip.runs.checkpoint.shutil.rmtree", lambda *_, **__: None)
    checkpoint.remove()
    assert not Checkpoint(tmp_path / "checkpoint").exists()
    assert isinstance(checkpoint.store, ClientStore)
