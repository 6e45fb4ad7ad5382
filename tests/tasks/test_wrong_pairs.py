"""A task with targets of another kind is refused, and the task that fits is named: as a data set, and as arrays."""

import numpy as np
import pytest

import fedtrip
from fedtrip import Experiment, UserError
from fedtrip.families import TASK

N = 40
ARRAYS = {
    "two classes": np.arange(N) % 2,
    "three classes": np.arange(N) % 3,
    "labels": np.stack([np.arange(N) % 2, np.arange(N) // 2 % 2], axis=1).astype(bool),
    "numbers": np.linspace(0, 1, N, dtype=np.float32),
    "several numbers": np.linspace(0, 1, 2 * N, dtype=np.float32).reshape(N, 2),
    "tokens": np.arange(3 * N).reshape(N, 3) % 5,
}
KINDS = {"labels": "labels", "numbers": "numbers", "several numbers": "numbers", "tokens": "tokens"}
FITTING = {
    "classification": {"two classes", "three classes"},
    "binary": {"two classes"},
    "multilabel": {"labels"},
    "regression": {"numbers", "several numbers"},
    "tokens": {"tokens"},
}
NAMED = {
    "two classes": "classification, or binary",
    "three classes": "classification",
    "labels": "multilabel",
    "numbers": "regression",
    "several numbers": "regression",
    "tokens": "tokens",
}
WRONG = [(task, targets) for task, fit in FITTING.items() for targets in ARRAYS if targets not in fit]


def arrays(targets):
    x, y = np.ones((N, 4), np.float32) * np.arange(N)[:, None], ARRAYS[targets]
    return {"x_train": x, "y_train": y, "x_test": x, "y_test": y}


def experiment(task):
    return Experiment(task=task, rounds=1, clients=2, per_round=2, samples_per_client=10)


@pytest.mark.parametrize(("task", "targets"), WRONG)
def test_a_data_set_of_another_kind_is_refused_with_the_task_that_fits(task, targets):
    data = fedtrip.from_arrays(**arrays(targets), targets=KINDS.get(targets))
    with pytest.raises(UserError, match=f"task '{task}' wants .*accepted: .*or task {NAMED[targets]}"):
        fedtrip.run(experiment(task), data=data, workers=1)


@pytest.mark.parametrize(("task", "targets"), WRONG)
def test_so_are_arrays(task, targets):
    with pytest.raises(UserError, match=f"accepted: .*task {NAMED[targets]}|it must be .*task {NAMED[targets]}"):
        fedtrip.run(experiment(task), data=arrays(targets), workers=1)


@pytest.mark.parametrize(
    ("task", "targets"),
    [(task, targets) for task, fit in FITTING.items() for targets in sorted(fit) if task != "tokens"],
)
def test_what_fits_runs_by_the_native_chain(task, targets):
    result = fedtrip.run(experiment(task), data=arrays(targets), workers=1)
    assert result.experiment.compute in ("native", "torch")
    assert result.final_model_score is not None
    if fedtrip.native.library.library() is not None:
        assert result.acceleration[0].startswith("native chain")


def test_nothing_but_places_that_do_not_count_is_refused():
    data = {**arrays("tokens"), "y_train": np.full((N, 3), -100), "y_test": np.full((N, 3), -100)}
    with pytest.raises(UserError, match="nothing but -100; accepted: tokens that count"):
        fedtrip.run(experiment("tokens"), data=data, workers=1)


def test_a_built_in_model_without_outputs_for_each_place_is_refused():
    with pytest.raises(UserError, match=r"model 'mlp' has 5 outputs for a sample, but the task wants shape \(3, 5\)"):
        fedtrip.run(experiment("tokens"), data=arrays("tokens"), workers=1)


def test_weights_of_another_number_of_classes_are_refused():
    task = TASK.make({"name": "classification", "class_weights": [1.0, 2.0]})
    with pytest.raises(UserError, match="class_weights has 2 numbers; accepted: one for each of the 3 classes"):
        task.check_classes(3)


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"name": "classification", "class_weights": [1.0, 0.0]}, "class_weights"),
        ({"name": "classification", "class_weights": "balanced"}, "class_weights"),
        ({"name": "classification", "label_smoothing": 1.0}, "label_smoothing"),
        ({"name": "classification", "focal_gamma": -1.0}, "focal_gamma"),
        ({"name": "classification", "score": "perplexity"}, "score"),
        ({"name": "binary", "pos_weight": 0.0}, "pos_weight"),
        ({"name": "binary", "score": "macro_f1"}, "score"),
        ({"name": "multilabel", "score": "f1"}, "score"),
        ({"name": "tokens", "score": "loss"}, "score"),
    ],
)
def test_an_option_out_of_its_range_is_refused_by_name(options, refused):
    with pytest.raises(UserError, match=rf"task '{options['name']}': option '{refused}' is .*accepted: "):
        TASK.make(options)
