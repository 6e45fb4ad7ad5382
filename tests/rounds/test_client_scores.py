"""How the model serves the clients, on test sets of their own: by hand, and the same on every engine."""

import dataclasses

import pytest
import torch

import fedtrip
from fedtrip import Experiment, Memory, Method
from fedtrip.rounds.client_scores import summarised
from fedtrip.runs.folder import read_records
from fedtrip.tasks.interface import ACCURACY, Goal

SMALL = {"rounds": 3, "samples_per_client": 100, "client_test": 0.2, "eval_clients": 1, "seed": 5}


def test_mean_worst_tenth_variance_and_the_unseen_by_hand():
    scores = {client: client / 20 for client in range(11)}
    found = summarised(ACCURACY, scores, unseen=[8, 10])
    assert found["mean"] == pytest.approx(0.25)
    assert found["worst_tenth"] == pytest.approx((0 + 0.05) / 2)  # ⌈11/10⌉ = 2 clients
    assert found["variance"] == pytest.approx(0.025)
    assert found["unseen"] == pytest.approx(0.45)
    assert (found["clients"], found["unseen_clients"]) == (11, 2)
    assert summarised(Goal("rmse", higher_is_better=False), scores, [])["worst_tenth"] == pytest.approx(0.475)
    assert summarised(ACCURACY, scores, [])["unseen"] is None
    some = summarised(ACCURACY, {0: 0.5, 1: float("nan"), 2: 1.0}, unseen=[1, 2])
    assert (some["mean"], some["clients"], some["unseen"], some["unseen_clients"]) == (0.75, 2, 1.0, 1)
    assert summarised(ACCURACY, {0: float("nan")}, [])["mean"] is None


def test_it_is_the_accuracy_on_each_clients_own_samples():
    experiment = Experiment(**SMALL, method="fedavg", clients=3, per_round=2)
    result = fedtrip.run(experiment, workers=1)
    federation = fedtrip.experiment.federation.prepare(experiment)
    tests, data = federation.held_out.own_tests, federation.dataset
    by_hand = []
    for client in range(3):
        rows = tests.share(client)
        with torch.no_grad():
            answers = result.module(data.normalised(data.x_train[rows])).argmax(1)
        by_hand.append(float((answers == data.y_train[rows]).float().mean()))
    found = result.client_scores["global"]
    assert found["mean"] == pytest.approx(sum(by_hand) / 3)
    assert found["worst_tenth"] == pytest.approx(min(by_hand))
    assert list(result.client_scores) == ["global"]


def test_clients_that_never_take_part_are_told_apart():
    result = fedtrip.run(Experiment(**SMALL, method="fedavg", unseen_clients=6), workers=1)
    assert max(client for record in result.records for client in record.clients) < 4
    assert result.client_scores["global"]["unseen_clients"] == 6
    first = result.records[0]
    assert first.client_scores["global"]["unseen_clients"] == 10 - len(set(first.clients))


@dataclasses.dataclass(frozen=True)
class OwnHead(Method):
    """FedAvg whose last layer never travels."""

    title = "own heads"

    def stays(self, layout):
        return frozenset(name for name in layout.parts if name.startswith("3."))


@dataclasses.dataclass(frozen=True)
class Twice(Method):
    """FedAvg whose clients are served by twice their last model."""

    title = "twice the last"

    def client(self, received, memory, local):  # noqa: ARG002
        trained = local.train(received)
        return fedtrip.Reply(upload=trained, keep={"own": trained["w"]})

    def personal_model(self, model, memory: Memory):
        return model if memory.is_new else {**model, "w": 2 * memory["own"]}


@pytest.mark.parametrize("method", [OwnHead(), Twice()])
def test_personal_models_are_asked_too_and_workers_change_nothing(method, tmp_path):
    experiment = Experiment(**SMALL, method=method)
    one = fedtrip.run(experiment, workers=1, out=tmp_path / "one")
    two = fedtrip.run(experiment, workers=2)
    assert [record.client_scores for record in one.records] == [record.client_scores for record in two.records]
    assert [record.client_scores for record in read_records(tmp_path / "one")] == [r.client_scores for r in one.records]
    last = one.client_scores
    assert list(last) == ["global", "personal"]
    assert last["global"] != last["personal"]
    if isinstance(method, OwnHead):  # everybody's head has learnt, but the global model's is the first
        assert last["personal"]["mean"] > last["global"]["mean"]


def test_only_in_the_rounds_that_were_asked_for():
    asked = Experiment(**{**SMALL, "eval_clients": 2}, method="fedavg")
    assert [bool(record.client_scores) for record in fedtrip.run(asked, workers=1).records] == [False, True, True]
