"""How much of the clients' memories stays in RAM, and what is said when the disk has no room for the rest."""

import logging
import shutil

import pytest

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.rounds import ram
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.ram import read_size

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
def test_a_disk_without_room_for_the_memories_is_told_after_the_first_round(
    stored, room, blobs, tmp_path, monkeypatch, caplog
):
    usage = shutil._ntuple_diskusage(10**6, 0, 10**6 if room else 6000)
    monkeypatch.setattr("fedtrip.runs.room.shutil.disk_usage", lambda _: usage)
    experiment = Experiment(**{**SMALL, "rounds": 8}, method="fedtrip")
    out = tmp_path / "run" if stored else None
    with caplog.at_level(logging.WARNING):
        package.run(experiment, data=blobs, workers=1, out=out, client_memory=2000)
    told = [record.getMessage() for record in caplog.records if "clients keep" in record.getMessage()]
    assert len(told) == (0 if room else 1)
    if not room:
        where = str(tmp_path / "run") if stored else "tmp"
        assert where in told[0]
        assert "5 clients keep up to" in told[0]
        assert "there is room for 0.0 MB" in told[0]


def test_a_method_that_keeps_nothing_needs_no_room(blobs, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("fedtrip.runs.room.shutil.disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    package.run(Experiment(**SMALL, method="fedavg"), data=blobs, workers=1, out=tmp_path / "run")
    assert not caplog.records
