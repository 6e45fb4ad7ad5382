"""FedBABU: the body is trained below w⁰'s head and averaged uniformly; a client's own model is fine-tuned from it."""

import pytest
import torch
from tests.reference.naive_personal_methods import (
    COST,
    LAYOUT,
    assert_follows_personally,
    play_apart,
    run_library,
)
from tests.reference.quadratic import QuadraticLocal
from tests.reference.setting import Setting, normalised
from tests.reference.watching import watched

import fedtrip
from fedtrip import Experiment
from fedtrip.engines.pool import PoolEngine
from fedtrip.engines.serial import SerialEngine
from fedtrip.layout import Travelling
from fedtrip.methods.fedbabu import FedBabu
from fedtrip.methods.interface import Memory, Reply
from fedtrip.one_thread import one_thread
from fedtrip.rounds.client_scores import trained_models
from fedtrip.rounds.memories import ClientStore
from fedtrip.rounds.state import initial_state
from fedtrip.training.flat_model import FlatModel


def test_two_rounds_by_hand():
    # η = ½, two steps on the body (first number): w ← w/4 + ¾b. Uniform means: (3 + 6)/2 = 4.5; then client 0 (b 4) has
    # 4.125, client 2 (b −4) −1.875, the mean is 1.125. The head is 7 as in the beginning, for everyone.
    b = [[4.0, 4.0], [8.0, 8.0], [-4.0, -4.0]]
    history = play_apart(FedBabu(), b=b, samples=[1, 3, 2], chosen=[(0, 1), (0, 2)], start=(0.0, 7.0))
    assert [w for w, _ in history] == [[4.5, 7.0], [1.125, 7.0]]


@pytest.mark.parametrize(("tuned", "wanted"), [("all", [3.0, 5.0]), ("head", [0.0, 5.0]), ("body", [3.0, 8.0])])
def test_fine_tuning_by_hand(tuned, wanted):
    # Two steps of rate ½ towards 4: 0, 2, 3 and 8, 6, 5.
    local = QuadraticLocal([4.0, 4.0], round_number=1, lr=0.5, steps=9, initial=torch.zeros(2), layout=LAYOUT)
    received = {"w": torch.tensor([0.0, 8.0])}
    own = FedBabu(tuned=tuned, tuning_epochs=2).personalise(received, Memory(), local)
    assert own["w"].tolist() == wanted
    assert local.orders == ["tuning"]


@pytest.mark.parametrize("tuned", ["all", "head", "body"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_runs_like_the_reference(tuned, weight_decay):
    setting = Setting(momentum=0.9, weight_decay=weight_decay, lr=0.05)
    assert_follows_personally(setting, "fedbabu", tuned=tuned, tuning_epochs=2)


def test_batch_norm_is_averaged_with_the_body():
    assert_follows_personally(normalised(rounds=3, weight_decay=0.02), "fedbabu", tuning_epochs=1)


def test_kept_optimizer_states_are_not_those_of_fine_tuning():
    setting = Setting(momentum=0.9, rounds=2)
    one = run_library(setting.but(rounds=1), "fedbabu", tuning_epochs=2)
    kept = run_library(setting.but(rounds=1, keep_optimizer_state=True), "fedbabu", tuning_epochs=2)
    for found, wanted in zip(kept[1], one[1], strict=True):
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_the_head_keeps_the_bits_of_the_beginning():
    setting = Setting(momentum=0.9, weight_decay=0.1, local_epochs=2)
    start = setting.module.state_dict()
    _, _, history = watched(setting, "fedbabu")
    for rounds in range(1, setting.rounds + 1):
        model, _, _ = run_library(setting.but(rounds=rounds), "fedbabu", tuning_epochs=0)
        assert torch.equal(model["head.weight"], start["head.weight"])
        assert torch.equal(model["head.bias"], start["head.bias"])
    heads = [memory.personal["w"] for _, memories in history for memory in memories if not memory.is_new]
    assert all(torch.equal(head, heads[0]) for head in heads)


def test_without_epochs_of_fine_tuning_all_have_the_global_model():
    model, own, _ = run_library(Setting(), "fedbabu", tuning_epochs=0)
    assert all(torch.equal(one[name], model[name]) for one in own for name in model)


def test_the_head_does_not_travel_and_fine_tuning_is_not_counted():
    setting = normalised(rounds=3)
    _, records, _ = watched(setting, "fedbabu")
    model, head = sum(v.nbytes for v in setting.module.state_dict().values()), 4 * 18
    for record in records:
        assert record.bytes_down == record.bytes_up == 2 * (model - head)
        assert record.client_memory == head
    assert FedBabu().attaching(COST).flops == 0
    small = {"rounds": 2, "samples_per_client": 60, "client_test": 0.2, "method": "fedbabu"}
    asked = fedtrip.run(Experiment(**small, eval_clients=1), workers=1)
    silent = fedtrip.run(Experiment(**small), workers=1)
    assert [record.macs for record in asked.records] == [record.macs for record in silent.records]
    assert asked.model_sha256 == silent.model_sha256
    tuned, common = (asked.client_scores[whose]["mean"] for whose in ("personal", "global"))
    assert tuned > common


def test_fine_tuning_in_worker_processes_has_the_same_bits():
    setting = normalised(rounds=1, momentum=0.9)
    federation = setting.federation("fedbabu", tuning_epochs=2)
    model = initial_state(federation, ClientStore()).server.model
    sent = Travelling(FlatModel(setting.module, (6,)).layout, ("head.weight", "head.bias")).cut(model)
    memories = dict.fromkeys(range(5), Memory())
    with one_thread():
        pool = PoolEngine(federation, 2)
        try:
            pool.wait_until_ready()
            found = trained_models(pool, 1, sent, memories)
        finally:
            pool.close()
        wanted = trained_models(SerialEngine(federation), 1, sent, memories)
    for one, other in zip(found, wanted, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in ("w", "buffers", "counters"))
        assert not torch.equal(one["w"], model["w"])


@pytest.mark.parametrize("wrong", ["a head that is trained", "weighted by samples"])
def test_wrong_variants_are_caught(wrong, monkeypatch):
    if wrong == "weighted by samples":
        monkeypatch.setattr(FedBabu, "weighting", "samples")
    else:
        monkeypatch.setattr(FedBabu, "client", lambda self, received, memory, local: Reply(local.train(received)))  # noqa: ARG005
    with pytest.raises(AssertionError):
        test_runs_like_the_reference("all", 0.0)
    if wrong == "weighted by samples":
        with pytest.raises(AssertionError):
            test_two_rounds_by_hand()
    else:
        with pytest.raises(AssertionError):
            test_the_head_keeps_the_bits_of_the_beginning()
