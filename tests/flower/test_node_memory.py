"""A client's memory on its node's disk: the round that the server names, and no more than it may still name."""

import stat

import pytest
import torch

pytest.importorskip("flwr", reason="needs pip install 'fedtrip[flower]'")

from fedtrip.errors import UserError
from fedtrip.flower.node_memory import NodeMemory
from fedtrip.methods.interface import Memory

KEY = "0123456789abcdef" * 2


def of_round(number):
    return Memory({"w_hist": torch.full((3,), float(number))}, number, {"1.momentum": torch.full((2,), -float(number))})


def rounds_on_disk(folder, client=0):
    return sorted(int(path.name.split("-")[1]) for path in (folder / KEY).glob(f"{client}-*"))


def test_a_round_that_the_server_lost_has_not_advanced_the_client(tmp_path):
    memory = NodeMemory(tmp_path, KEY, 0)
    assert memory.load(0, 0).is_new
    memory.save(of_round(1), 0, started_from=0)
    for lost in (2, 3, 5):  # the server got none of these, and names round 1 again and again
        assert memory.load(1, 0)["w_hist"].tolist() == [1.0] * 3
        memory.save(of_round(lost), 0, started_from=1)
        assert rounds_on_disk(tmp_path) == [1, lost]
    memory.save(of_round(6), 0, started_from=5)  # it named round 5, so it has it
    assert rounds_on_disk(tmp_path) == [5, 6]
    kept = NodeMemory(tmp_path, KEY, 0).load(6, 0)
    assert kept.last_round == 6
    assert kept.optimizer["1.momentum"].tolist() == [-6.0] * 2


def test_every_exchange_of_a_round_is_kept_until_the_round_is_over(tmp_path):
    memory = NodeMemory(tmp_path, KEY, 0)
    memory.save(of_round(1), 1, started_from=0)
    memory.save(of_round(2), 0, started_from=1)
    memory.save(of_round(2), 1, started_from=1)
    assert rounds_on_disk(tmp_path) == [1, 2, 2]
    memory.load(1, 1)
    memory.load(2, 0)


def test_nobody_else_may_read_it(tmp_path):
    NodeMemory(tmp_path, KEY, 0).save(of_round(1), 0, started_from=0)
    (path,) = (tmp_path / KEY).iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_clients_and_runs_are_kept_apart_and_forgotten_apart(tmp_path):
    for key, client in ((KEY, 0), (KEY, 10), ("f" * 32, 0)):
        NodeMemory(tmp_path, key, client).save(of_round(1), 0, started_from=0)
    NodeMemory(tmp_path, KEY, 0).forget()
    assert (rounds_on_disk(tmp_path), rounds_on_disk(tmp_path, 10)) == ([], [1])
    NodeMemory(tmp_path, KEY, 10).forget()
    assert [path.name for path in tmp_path.iterdir()] == ["f" * 32]
    NodeMemory(tmp_path, KEY, 10).forget()  # there is nothing to forget


def test_what_is_missing_damaged_or_outside_is_told(tmp_path):
    memory = NodeMemory(tmp_path, KEY, 0)
    with pytest.raises(UserError, match="client 0 has no memory of round 4"):
        memory.load(4, 0)
    memory.save(of_round(1), 0, started_from=0)
    (path,) = (tmp_path / KEY).iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read: it is damaged"):
        memory.load(1, 0)
    for run in ("../../etc", "", KEY.upper()[:-1] + "G"):
        with pytest.raises(UserError, match="cannot be the name of a run"):
            NodeMemory(tmp_path, run, 0)
