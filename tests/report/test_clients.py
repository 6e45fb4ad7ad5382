"""A client's accuracy is the per-class accuracy weighted by its label shares."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip import Experiment
from fedtrip.experiment.federation import prepare
from fedtrip.report import clients
from fedtrip.report.clients import accuracy_of_classes, accuracy_of_clients, confusion_of, look_at_clients

SMALL = {"rounds": 2, "clients": 4, "per_round": 2, "samples_per_client": 30, "lr": 0.05}


@pytest.fixture
def trained(blobs):
    data = fedtrip.from_arrays(**blobs)
    experiment = Experiment(**SMALL)
    result = fedtrip.run(experiment, model=_model, data=data, workers=1)
    return result, prepare(result.experiment, model=_model, data=data)


def _model() -> torch.nn.Module:
    return torch.nn.Linear(6, 3)


def test_by_hand(trained):
    result, federation = trained
    data = federation.dataset
    guessed = result.module(data.normalised(data.x_test)).argmax(1)
    by_class = [float((guessed == data.y_test)[data.y_test == c].float().mean()) for c in range(3)]
    confusion = confusion_of(federation, result.state)
    for row, column in np.ndindex(3, 3):
        assert confusion[row, column] == int(((data.y_test == row) & (guessed == column)).sum())
    np.testing.assert_allclose(accuracy_of_classes(confusion), by_class, rtol=1e-6)
    for client, accuracy in enumerate(accuracy_of_clients(federation, confusion)):
        labels = data.y_train[federation.partition.share(client)]
        expected = sum(float((labels == c).float().mean()) * by_class[c] for c in range(3))
        assert accuracy == pytest.approx(expected, rel=1e-6)


def test_a_class_without_test_samples_is_left_out(trained):
    from dataclasses import replace

    result, federation = trained
    data = federation.dataset
    tested = data.y_test != 2
    without = replace(federation, dataset=replace(data, x_test=data.x_test[tested], y_test=data.y_test[tested]))
    confusion = confusion_of(without, result.state)
    assert np.isnan(accuracy_of_classes(confusion)).tolist() == [False, False, True]
    assert not np.isnan(accuracy_of_clients(without, confusion)).any()


def test_histories_have_labels_but_no_accuracies(make_runs):
    view = look_at_clients({"a": make_runs("fedavg", [3, 4], clients=5, samples_per_client=40)}, prepare)
    assert {seed: table.shape for seed, table in view.counts.items()} == {0: (5, 10), 1: (5, 10)}
    assert view.counts[0].sum() == 200
    assert not view.accuracy


def test_slow_models_are_tested_for_fewer_seeds(monkeypatch):
    runs = [fedtrip.run(Experiment(**SMALL, seed=seed), workers=1) for seed in (0, 1)]
    assert look_at_clients({"fedtrip": runs}, prepare).seeds_scored == 2
    monkeypatch.setattr(clients, "MOST_MACS", 1.0)
    assert look_at_clients({"fedtrip": runs}, prepare).seeds_scored == 1


def test_a_model_that_does_not_fit_is_bad_input(trained):
    _, federation = trained
    with pytest.raises(fedtrip.UserError, match="does not fit"):
        confusion_of(federation, {"weight": torch.zeros(1)})
