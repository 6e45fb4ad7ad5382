"""Attacks on Flower: the server makes up what attackers send, nodes train on poisoned samples, and the bits are the
same; nodes' own data are never poisoned."""

import pytest
import torch
from flwr.supercore.task_identity import TaskIdentity
from tests.flower.test_coded_uploads import CLIENTS, NearGrid, all_rounds, engine_of, federation_of, same

from fedtrip import Experiment, UserError
from fedtrip.engines.serial import SerialEngine
from fedtrip.flower.own_data import NODES, server_federation


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """What Flower sets in the process of a ServerApp: whose messages these are."""
    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


@pytest.mark.parametrize(
    "rules",
    [
        {"method": "fedtrip", "attack": "alie:0.3", "upload_codec": "int8", "combine": "geometric"},
        {"method": "fedavg", "attack": "backdoor:0.3", "combine": "centered:0.5"},
        {"method": "scaffold", "attack": "labelflip:0.3"},
    ],
    ids=str,
)
def test_the_same_bits_as_on_one_machine(rules, tmp_path):
    federation = federation_of(**rules)
    assert 0 < len(federation.attackers) < CLIENTS
    records, model = all_rounds(federation, engine_of(federation, NearGrid(tmp_path)))
    expected, reference = all_rounds(federation, SerialEngine(federation))
    assert same(model, reference)
    assert [(r.scores, r.refused) for r in records] == [(r.scores, {}) for r in expected]
    honest = federation_of(**{**rules, "attack": "none"})
    assert not same(model, all_rounds(honest, SerialEngine(honest))[1])


def test_a_node_s_own_samples_are_never_poisoned():
    held_out = torch.rand(6, 1, 8, 8), torch.arange(6)
    described = Experiment(dataset=NODES, model="mlp", clients=4, mean=(0.5,), std=(0.3,))
    for attack in ("labelflip:0.25", "backdoor:0.25"):
        with pytest.raises(
            UserError, match=rf"attack '{attack}' changes what clients train on.*nodes' own.*accepted: an"
        ):
            server_federation(described.but(attack=attack), held_out)
    assert len(server_federation(described.but(attack="alie:0.25"), held_out).attackers) == 1
    with pytest.raises(UserError, match="which is none of 4 clients"):
        server_federation(described.but(attack="alie:0.1"), held_out)
