"""The clients' memories: within a budget, the same bits from disk, the right version after an interruption."""

import pytest
import torch
from safetensors.torch import save_file

from fedtrip.errors import UserError
from fedtrip.methods.interface import Memory
from fedtrip.rounds.memories import ClientStore


def memory(seed, last_round, size=25):
    """100 bytes and a little: every kind of vector that a method may keep."""
    random = torch.Generator().manual_seed(seed)
    return Memory({"w": torch.randn(size, generator=random)}, last_round)


def rich(seed, last_round):
    random = torch.Generator().manual_seed(seed)
    odd = torch.tensor([0.0, -0.0, 1e-45, -3e38])
    vectors = {
        "w": torch.cat([torch.randn(9, generator=random), odd]),
        "double": torch.randn(5, generator=random, dtype=torch.float64) / 3,
        "counters": torch.tensor([2**62 + 1, -3]),
        "scalar": torch.tensor(0.1),
        "empty": torch.zeros(0),
        "table": torch.randn(2, 3, generator=random),
    }
    return Memory(vectors, last_round, optimizer={"1.momentum": torch.randn(13, generator=random)})


def same(a, b):
    assert a.last_round == b.last_round
    one, other = a.packed(), b.packed()
    assert one.keys() == other.keys()
    for name in one:
        assert (one[name].dtype, one[name].shape) == (other[name].dtype, other[name].shape)
        assert one[name].numpy().tobytes() == other[name].numpy().tobytes()
    return True


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_client_that_never_took_part_has_an_empty_memory(tmp_path):
    for store in (ClientStore(), ClientStore(tmp_path / "never made")):
        assert store.get(7).is_new
        assert store.get(7).vectors == {}
        assert len(store) == 0
        store.close()
    assert not (tmp_path / "never made").exists()


def test_what_is_put_is_what_is_got(tmp_path):
    store = ClientStore(tmp_path)
    kept = rich(1, 3)
    store.put(5, kept)
    assert store.get(5) is kept
    newer = rich(2, 4)
    store.put(5, newer)
    assert store.get(5) is newer
    assert len(store) == 1
    assert files(tmp_path) == []  # nothing is written before it is asked for


@pytest.mark.parametrize("own_folder", [True, False])
def test_what_does_not_fit_is_read_back_to_the_bit(own_folder, tmp_path):
    store = ClientStore(tmp_path if own_folder else None, budget=1)
    kept = {client: rich(client, client % 3 + 1) for client in range(6)}
    for client, what in kept.items():
        store.put(client, what)
    for client in (0, 3, 5, 0, 1):
        assert store.get(client) is not kept[client] or client == 5
        assert same(store.get(client), kept[client])
    assert len(store) == 6
    store.close()


def test_a_memory_without_vectors_still_says_that_its_client_took_part():
    store = ClientStore(budget=-1)
    store.put(0, Memory({}, 4))
    store.put(1, Memory({}, 5))
    assert store.get(0).last_round == 4
    assert not store.get(0).is_new
    store.close()


def test_views_and_vectors_of_the_same_memory_can_be_kept(tmp_path):
    # A user's own method may keep such; without a folder nothing is written and it works.
    whole = torch.arange(6.0)
    kept = Memory({"a": whole, "b": whole, "part": whole[2:], "gaps": whole[::2], "flat": torch.ones(1).expand(4)}, 1)
    store = ClientStore(tmp_path)
    store.put(0, kept)
    store.write()
    again = ClientStore(tmp_path)
    again.restore({0: 1})
    assert same(again.get(0), kept)


def test_the_least_recently_used_are_spilled_and_the_budget_is_kept(tmp_path):
    store = ClientStore(tmp_path, budget=300)  # three memories of 100 bytes
    for client in range(3):
        store.put(client, memory(client, 1))
    assert files(tmp_path) == []
    store.get(0)  # used again: 1 is now the oldest
    store.put(3, memory(3, 1))
    assert files(tmp_path) == ["1-1.safetensors"]
    store.put(0, memory(9, 2))  # replaces its own 100 bytes
    assert files(tmp_path) == ["1-1.safetensors"]
    store.put(4, memory(4, 2, size=50))  # 200 bytes: two have to go
    assert files(tmp_path) == ["1-1.safetensors", "2-1.safetensors", "3-1.safetensors"]
    assert sum(kept.size_in_bytes() for kept in store._recent.values()) == store._bytes == 300


def test_the_bytes_in_memory_stay_within_the_budget():
    store, random = ClientStore(budget=1000), torch.Generator().manual_seed(0)
    for number in range(1, 200):
        client, size = (int(n) for n in torch.randint(0, 30, (2,), generator=random))
        store.put(client, memory(number, number, size=size))
        store.get(int(torch.randint(0, 30, (1,), generator=random)))
        assert store._bytes == sum(kept.size_in_bytes() for kept in store._recent.values()) <= 1000
    store.close()


def test_momentum_counts_too():
    kept = Memory({"w": torch.zeros(10)}, 1, optimizer={"1.momentum": torch.zeros(10)})
    assert kept.size_in_bytes() == 80
    store = ClientStore(budget=80)
    store.put(0, kept)
    store.put(1, kept)
    assert list(store._recent) == [1]
    store.close()


def test_one_memory_above_the_budget_stays():
    store = ClientStore(budget=10)
    store.put(0, memory(0, 1))
    assert list(store._recent) == [0]
    assert store._temporary is None


def test_only_what_has_changed_is_written(tmp_path):
    store = ClientStore(tmp_path)
    for client in range(3):
        store.put(client, memory(client, 1))
    store.write()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    inodes = {path: path.stat().st_ino for path in tmp_path.iterdir()}
    store.get(0)
    store.put(1, memory(11, 2))
    store.write()
    store.write()
    assert files(tmp_path) == ["0-1.safetensors", "1-1.safetensors", "1-2.safetensors", "2-1.safetensors"]
    assert all((path.stat().st_mtime_ns, path.stat().st_ino) == (before[path], inodes[path]) for path in before)
    store.forget_outdated(synced=True)
    assert files(tmp_path) == ["0-1.safetensors", "1-2.safetensors", "2-1.safetensors"]


def test_what_was_only_read_is_not_written_again(tmp_path):
    store = ClientStore(tmp_path, budget=1)
    for client in range(3):
        store.put(client, memory(client, 1))
    store.write()
    inodes = {path: path.stat().st_ino for path in tmp_path.iterdir()}
    for client in (0, 1, 2, 0, 2):
        store.get(client)
    store.write()
    assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == inodes


def test_the_temporary_folder_holds_one_file_a_client_and_goes():
    store = ClientStore(budget=1)
    assert store._temporary is None  # nothing was spilled
    for number in range(1, 30):
        for client in (0, 1, 2):
            store.put(client, memory(number, number))
    folder = store._place()
    assert len(files(folder)) <= 3  # a run of many rounds must not fill the disk
    assert same(store.get(0), memory(29, 29))
    store.close()
    assert not folder.exists()
    ClientStore().close()


ROUND_5 = {0: 4, 1: 5, 2: 5}
"""Of which round each memory is after the later one of `two_rounds`."""


def two_rounds(folder):
    """Clients 0, 1 in round 4 and 1, 2 in round 5; nothing of round 4 forgotten yet."""
    store = ClientStore(folder)
    for client in (0, 1):
        store.put(client, memory(10 + client, 4))
    store.write()
    for client in (1, 2):
        store.put(client, memory(20 + client, 5))
    store.write()


@pytest.mark.parametrize(
    ("kept", "seeds"),
    [({0: 4, 1: 5, 2: 5}, {0: 10, 1: 21, 2: 22}), ({0: 4, 1: 4}, {0: 10, 1: 11}), ({}, {})],
)
def test_restore_takes_the_version_of_the_round(kept, seeds, tmp_path):
    two_rounds(tmp_path)
    before = files(tmp_path)
    store = ClientStore(tmp_path)
    store.restore(kept)
    assert len(store) == len(seeds)
    for client in range(4):
        assert store.get(client).is_new == (client not in seeds)
    for client, seed in seeds.items():
        assert torch.equal(store.get(client)["w"], memory(seed, 0)["w"])
    assert files(tmp_path) == before  # it removes nothing itself
    store.forget_outdated(synced=False)
    assert files(tmp_path) == [f"{client}-{last}.safetensors" for client, last in kept.items()]


def test_what_the_synced_state_needs_stays_until_the_next_one(tmp_path):
    two_rounds(tmp_path)
    store = ClientStore(tmp_path)
    store.restore({0: 4, 1: 5, 2: 5}, synced={0: 4, 1: 4})
    store.forget_outdated(synced=False)
    assert files(tmp_path) == ["0-4.safetensors", "1-4.safetensors", "1-5.safetensors", "2-5.safetensors"]
    for number in (6, 7, 8):
        store.put(1, memory(number, number))
        store.write()
        store.forget_outdated(synced=False)
        assert files(tmp_path) == ["0-4.safetensors", "1-4.safetensors", f"1-{number}.safetensors", "2-5.safetensors"]
    assert store.outdated() == (1, (tmp_path / "1-4.safetensors").stat().st_size)
    store.forget_outdated(synced=True)
    assert files(tmp_path) == ["0-4.safetensors", "1-8.safetensors", "2-5.safetensors"]
    assert store.outdated() == (0, 0)


def test_a_memory_that_is_not_there_is_named_and_an_older_one_not_taken(tmp_path):
    two_rounds(tmp_path)
    before = files(tmp_path)
    store = ClientStore(tmp_path)
    with pytest.raises(UserError, match=r"the memory of client 0, '.*/0-5\.safetensors', is gone"):
        store.restore({0: 5, 1: 5})
    assert files(tmp_path) == before


def test_a_round_that_is_done_again_is_kept(tmp_path):
    two_rounds(tmp_path)
    store = ClientStore(tmp_path)
    store.restore({0: 4, 1: 4})
    store.forget_outdated(synced=False)
    store.put(1, memory(31, 5))
    store.write()
    store.forget_outdated(synced=True)
    assert files(tmp_path) == ["0-4.safetensors", "1-5.safetensors"]
    assert torch.equal(store.get(1)["w"], memory(31, 5)["w"])


def test_half_written_files_are_removed_and_foreign_ones_left(tmp_path):
    # What a process leaves that is killed between writing and renaming.
    two_rounds(tmp_path)
    (tmp_path / ".1-6.safetensors.4711.tmp.safetensors").write_bytes(b"half")
    foreign = ["notes-1.safetensors", "notes.txt", "1-2-3.safetensors", ".own.safetensors"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    store = ClientStore(tmp_path)
    store.restore(ROUND_5)
    store.forget_outdated(synced=False)
    assert files(tmp_path) == sorted(["0-4.safetensors", "1-5.safetensors", "2-5.safetensors", *foreign])


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip,
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: save_file({"w": torch.zeros(25)}, path),
        lambda path: path.write_bytes((path.parent / "0-4.safetensors").read_bytes()),
    ],
    ids=["cut", "flipped", "empty", "gone", "of-something-else", "of-another-client"],
)
def test_a_damaged_file_is_named(damage, tmp_path):
    two_rounds(tmp_path)
    store = ClientStore(tmp_path)
    store.restore(ROUND_5)
    damage(tmp_path / "1-5.safetensors")
    with pytest.raises(UserError, match=r"the memory of a client, '.*1-5\.safetensors', cannot be read: "):
        store.get(1)
    assert torch.equal(store.get(2)["w"], memory(22, 5)["w"])


def test_a_disk_that_is_full_is_told(tmp_path, monkeypatch):
    def full(*_arguments, **_keywords):
        raise OSError(28, "No space left on device")

    two_rounds(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    store = ClientStore(tmp_path)
    store.restore(ROUND_5)
    monkeypatch.setattr("fedtrip.rounds.memories.save_file", full)
    store.put(1, memory(1, 6))
    with pytest.raises(UserError, match=r"cannot be written: .*No space left"):
        store.write()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
