"""Validation, patience and the best model: never by the test set, and the same after an interruption."""

import dataclasses

import pytest

import fedtrip
from fedtrip import Experiment, RoundRecord
from fedtrip.rounds.early_stopping import BestSoFar, best_round
from fedtrip.tasks.interface import ACCURACY, Goal

SMALL = {"samples_per_client": 60, "method": "fedavg", "validation": 0.2, "lr": 0.05, "seed": 3}


def record(number, score, test=0.0):
    return RoundRecord(number, {"accuracy": test}, (), validation={} if score is None else {"accuracy": score})


def test_the_first_of_the_best_counts_and_rounds_without_evaluation_do_not():
    best = BestSoFar(ACCURACY, patience=2)
    scores = [0.5, None, 0.7, 0.7, None, 0.6]
    taken = [best.take(record(number, score)) for number, score in enumerate(scores, 1)]
    assert taken == [True, False, True, False, False, False]
    assert (best.round, best.score, best.since, best.is_exhausted) == (3, 0.7, 2, True)
    down = Goal("accuracy", higher_is_better=False)
    assert best_round([record(1, 0.5), record(2, 0.3), record(3, 0.4)], down) == 2
    assert best_round([record(1, None)], ACCURACY) is None


def test_a_run_stops_when_its_patience_is_at_an_end():
    result = fedtrip.run(Experiment(**SMALL, rounds=60, patience=3), workers=1)
    scores = [record.validation["accuracy"] for record in result.records]
    best = scores.index(max(scores)) + 1
    assert len(result.records) == best + 3 < 60
    why = f"by its patience after round {best + 3}: the best validation score was that of round {best}"
    assert result.stopped == why
    assert (result.ended, result.summary()["stopped"], result.model_round) == (None, result.stopped, best + 3)


@pytest.mark.parametrize("at", ["server", "clients"])
def test_the_best_model_is_kept_on_any_workers_and_after_an_interruption(tmp_path, at):
    experiment = Experiment(**SMALL, rounds=12, keep_best=True, validation_at=at)
    whole = fedtrip.run(experiment, workers=1)
    best = whole.model_round
    assert best == best_round(whole.records, whole.goal)
    until = fedtrip.run(experiment.but(rounds=best, keep_best=False), workers=2)
    assert whole.model_sha256 == until.model_sha256
    assert whole.final_model_score == whole.records[best - 1].accuracy
    assert fedtrip.run(experiment, workers=2).model_sha256 == whole.model_sha256

    class Killed(Exception):
        pass

    def kill(record):
        if record.round == min(best + 1, 11):
            raise Killed

    with pytest.raises(Killed):
        fedtrip.run(experiment, workers=1, out=tmp_path / "run", on_round=kill)
    resumed = fedtrip.run(experiment, workers=1, out=tmp_path / "run", resume=True)
    assert resumed.model_sha256 == whole.model_sha256
    assert fedtrip.load_result(tmp_path / "run").model_round == best


def test_the_test_set_decides_nothing():
    """Other test samples, and wrong ones: the model, the round that was kept and the validation are the same."""
    data = fedtrip.load_dataset("digits")
    other = dataclasses.replace(data, x_test=data.x_test.flip(0) * 0, y_test=data.y_test.roll(7))
    experiment = Experiment(**SMALL, rounds=20, patience=3, keep_best=True, client_test=0.2)
    one, two = (fedtrip.run(experiment, data=some, workers=1) for some in (data, other))
    assert one.model_sha256 == two.model_sha256
    assert one.model_round == two.model_round
    assert [record.validation for record in one.records] == [record.validation for record in two.records]
    assert [record.scores for record in one.records] != [record.scores for record in two.records]


def test_validation_is_that_of_the_rows_that_were_held_out():
    experiment = Experiment(**SMALL, rounds=2)
    result = fedtrip.run(experiment, workers=1)
    federation = fedtrip.experiment.federation.prepare(experiment)
    data, rows = federation.dataset, federation.held_out.validation
    hits = (result.module(data.normalised(data.x_train[rows])).argmax(1) == data.y_train[rows]).sum()
    assert result.records[-1].validation["accuracy"] == int(hits) / len(rows)
