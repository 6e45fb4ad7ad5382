"""How much of the clients' memories stays in RAM, and what is said when the disk has no room for the rest."""

import logging
import math
import shutil
from dataclasses import dataclass

import pytest
from torch import nn

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.experiment.federation import prepare
from fedtrip.experiment.given_data import as_dataset
from fedtrip.families import METHOD
from fedtrip.rounds import ram
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.ram import read_size
from fedtrip.rounds.state import initial_state
from fedtrip.runs.room import expected_memory
from fedtrip.runs.running import run_federation

SMALL = {"rounds": 4, "clients": 5, "per_round": 2, "samples_per_client": 20, "batch_size": 10, "seed": 7}
MEMORY = """MemTotal:       16000000 kB
MemFree:          100000 kB
MemAvailable:    8000000 kB
"""


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("512MiB", 512 * 2**20), ("2 GiB", 2**31), ("1.5GB", 1_500_000_000), ("64kib", 65536), (4096, 4096)],
)
def test_sizes(text, size):
    assert read_size(text, "client_memory") == size


@pytest.mark.parametrize("text", ["", "much", "-1", "0", "1XB", "MiB", "nan", "1e400GB", 0, -5, True, 1.5])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UserError, match=r"client_memory is .*; accepted: bytes, or a number with KiB, MiB, GiB"):
        read_size(text, "client_memory")


def test_the_budget_follows_the_machine(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text(MEMORY)
    monkeypatch.setattr(ram, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(ram, "CGROUP", tmp_path)
    assert ram.budget() == 8_000_000 * 1024 // 4
    assert ram.budget(sharing=8) == 8_000_000 * 1024 // 32
    (tmp_path / "memory.max").write_text("max")
    (tmp_path / "memory.current").write_text("1000000000")
    assert ram.budget() == 8_000_000 * 1024 // 4
    (tmp_path / "memory.max").write_text("3000000000")  # a container has less than its machine
    assert ram.budget() == 500_000_000
    (tmp_path / "memory.max").write_text("1000000001")
    assert ram.budget(sharing=1000) == ram.LEAST
    (tmp_path / "meminfo").unlink()
    (tmp_path / "memory.max").unlink()
    assert ram.budget() == ram.UNKNOWN
    assert ClientStore().budget == ram.UNKNOWN


def test_it_changes_no_bits(blobs, tmp_path):
    experiment = Experiment(**SMALL, method="fedtrip")
    whole = package.run(experiment, data=blobs, workers=1)
    assert whole.model_sha256 == package.run(experiment, data=blobs, workers=1, client_memory=1).model_sha256
    kept = package.run(
        experiment, data=blobs, workers=1, client_memory="1KiB", out=tmp_path / "run", checkpoint_every=1
    )
    assert whole.model_sha256 == kept.model_sha256


def test_the_command_line(fedtrip, here):
    small = ("--rounds", 2, "--clients", 3, "--per-round", 2, "--samples-per-client", 20, "--workers", 1, "-q")
    assert fedtrip("run", *small, "--client-memory", "1KiB", "--out", "little").code == 0
    assert fedtrip("run", *small, "--out", "much").code == 0
    assert len({package.load_result(here / name).model_sha256 for name in ("little", "much")}) == 1
    ended = fedtrip("run", *small, "--client-memory", "lots", "--out", "none")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "--client-memory is 'lots'; accepted: bytes, or a number with KiB, MiB, GiB" in ended.err
    assert not (here / "none").exists()


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("room", [True, False])
def test_a_disk_without_room_for_the_memories_is_told_before_the_first_round(
    stored, room, blobs, tmp_path, monkeypatch, caplog
):
    usage = shutil._ntuple_diskusage(10**6, 0, 10**6 if room else 6000)
    monkeypatch.setattr("fedtrip.runs.room.shutil.disk_usage", lambda _: usage)
    experiment = Experiment(**{**SMALL, "rounds": 8}, method="fedtrip")
    out = tmp_path / "run" if stored else None
    told_before = []
    with caplog.at_level(logging.WARNING):
        package.run(
            experiment, data=blobs, workers=1, out=out, client_memory=2000,
            on_round=lambda record: told_before.append((record.round, len(caplog.records))),
        )  # fmt: skip
    told = [record.getMessage() for record in caplog.records if "clients keep" in record.getMessage()]
    assert len(told) == (0 if room else 1)
    assert told_before[0] == (1, len(told))
    if not room:
        where = str(tmp_path / "run") if stored else "tmp"
        assert where in told[0]
        assert "5 clients keep up to" in told[0]
        assert "there is room for 0.0 MB; " in told[0]


@dataclass(frozen=True)
class Keeps(package.Method):
    """A method of one's own that does not say what it keeps: it is seen after the first round."""

    title = "keeps what it sends"

    def client(self, received, memory, local):  # noqa: ARG002
        trained = local.train(received)
        return package.Reply(upload=trained, keep=trained)


def test_what_a_method_does_not_say_is_told_after_the_first_round(blobs, monkeypatch, caplog):
    monkeypatch.setattr("fedtrip.runs.room.shutil.disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    told = []
    package.run(
        Experiment(**SMALL, method=Keeps()), data=blobs, workers=1, client_memory=2000,
        on_round=lambda _: told.append(len(caplog.records)),
    )  # fmt: skip
    assert told[-1] == 1


def test_much_that_will_lie_on_the_disk_is_told_also_if_there_is_room(blobs, tmp_path, monkeypatch, caplog):
    """FedTrip's w_hist of the MLP 4·(8·100 + 100 + 100·3 + 3) bytes, for each of five clients."""
    monkeypatch.setattr("fedtrip.runs.room.TOLD_FROM", 1000)
    result = package.run(
        Experiment(**{**SMALL, "rounds": 8}, method="fedtrip"), data=blobs, workers=1, out=tmp_path / "r"
    )
    size = 5 * 4 * sum(p.numel() for p in result.module.parameters()) / 1e6
    (told,) = (record.getMessage() for record in caplog.records)
    assert f"5 clients keep up to {size:.1f} MB, of which {size:.1f} MB stay in memory too; {size:.1f} MB more" in told
    assert "before its last round" not in told


OTHERS = ({}, {"upload_codec": "topk:0.1"}, {"keep_optimizer_state": True, "optimizer": "adam"})


@pytest.mark.parametrize("others", OTHERS, ids=["alone", "codec", "optimizer"])
@pytest.mark.parametrize("method", METHOD.names())
def test_what_a_client_will_keep_is_known_before_the_first_round(method, others, blobs):
    data = as_dataset(blobs, Experiment())
    features = math.prod(data.sample_shape)
    net = nn.Sequential(nn.Flatten(), nn.Linear(features, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, data.classes))
    try:
        federation = prepare(Experiment(**SMALL, method=method, **others), model=net, data=data)
    except UserError:
        pytest.skip("the rules do not go together")
    state = initial_state(federation, ClientStore())
    last = run_federation(federation, workers=1).records[-1]
    assert expected_memory(federation, state) == last.client_memory


def test_a_method_that_keeps_nothing_needs_no_room(blobs, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("fedtrip.runs.room.shutil.disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    package.run(Experiment(**SMALL, method="fedavg"), data=blobs, workers=1, out=tmp_path / "run")
    assert not caplog.records
