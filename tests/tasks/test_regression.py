"""Regression, the second task, end to end: from an npz file to the tables, the plot and the page."""

import csv
import json
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import nn

import fedtrip as package
from fedtrip import Experiment, UserError
from fedtrip.experiment.federation import prepare
from fedtrip.runs.folder import read_summary
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.interface import Goal
from fedtrip.tasks.regression import Regression

SMALL = {"rounds": 6, "clients": 4, "per_round": 2, "batch_size": 20, "lr": 0.002, "task": "regression"}
OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]


@pytest.fixture(scope="module")
def diabetes():
    """Ten measurements of 442 patients, and a whole number as a float: how the disease went on."""
    x, y = load_diabetes(return_X_y=True)
    return {"x_train": x[:342], "y_train": y[:342], "x_test": x[342:], "y_test": y[342:]}


@pytest.fixture(scope="module")
def file(diabetes, tmp_path_factory):
    path = tmp_path_factory.mktemp("diabetes") / "diabetes.npz"
    np.savez(path, **diabetes)
    return path


def test_the_data_have_float_targets_and_no_classes(diabetes, file):
    dataset = package.from_arrays(**diabetes, classes=0)
    assert (dataset.classes, dataset.y_train.dtype, dataset.y_test.dtype) == (0, torch.float32, torch.float32)
    loaded = prepare(Experiment(**SMALL, dataset=f"npz:{file}")).dataset
    assert loaded.sha256() == dataset.sha256()
    halves = [(diabetes["x_train"][part::2], diabetes["y_train"][part::2]) for part in (0, 1)]
    split = package.from_clients(halves, (diabetes["x_test"], diabetes["y_test"]), classes=0)
    assert (split.classes, split.clients, split.y_train.dtype) == (0, 2, torch.float32)
    experiment = prepare(Experiment(**{**SMALL, "clients": 2}), data=split).experiment
    assert (experiment.partition, experiment.target) == ("given", None)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_targets_that_are_not_finite_are_refused(diabetes, bad):
    y = diabetes["y_train"].copy()
    y[7] = bad
    with pytest.raises(UserError, match=r"y_train has values that are NaN, infinite or beyond float32.*sample 7"):
        package.from_arrays(**{**diabetes, "y_train": y}, classes=0)


def test_targets_of_the_other_task_are_refused_with_the_one_that_fits(diabetes):
    whole = {name: array.astype(int) if name[0] == "y" else array for name, array in diabetes.items()}
    broken = {name: array + 0.5 if name[0] == "y" else array for name, array in diabetes.items()}
    for data in (whole, package.from_arrays(**whole, classes=400)):
        with pytest.raises(UserError, match=r"integer.*accepted: .*task classification"):
            package.run(Experiment(**SMALL), data=data)
    for data in (broken, package.from_arrays(**broken, classes=0)):
        with pytest.raises(UserError, match=r"integer.*accepted: .*task regression"):
            package.run(Experiment(**{**SMALL, "task": "classification"}), data=data)


def test_the_model_has_one_output_and_ones_own_may_return_it_flat(diabetes):
    federation = prepare(Experiment(**SMALL), data=package.from_arrays(**diabetes, classes=0))
    assert federation.module(torch.zeros(3, 10)).shape == (3, 1)
    weights = nn.Linear(10, 1)
    tall, flat = nn.Sequential(weights), nn.Sequential(weights, nn.Flatten(0))
    by_torch = Experiment(**SMALL, compute="torch")  # the native engine has no flat outputs
    digests = [package.run(by_torch, data=diabetes, model=m, workers=1).model_sha256 for m in (tall, flat)]
    assert digests[0] == digests[1]
    with pytest.raises(UserError, match=r"returns shape \(2, 3\).*accepted: a tensor of shape \(2, 1\) or \(2,\)"):
        package.run(Experiment(**SMALL), data=diabetes, model=nn.Linear(10, 3))


@pytest.mark.parametrize("partition", ["dirichlet:0.5", "orthogonal:2"])
def test_partitions_by_class_are_refused_by_name(diabetes, partition):
    assert prepare(Experiment(**SMALL), data=package.from_arrays(**diabetes, classes=0)).experiment.partition == "iid"
    with pytest.raises(UserError, match=f"partition '{partition}' needs classes.*accepted: iid"):
        package.run(Experiment(**SMALL, partition=partition), data=diabetes)


def test_a_method_that_needs_classes_is_refused_by_name(diabetes):
    with pytest.raises(UserError, match=r"method 'fedgkd'.*task 'regression'"):
        package.run(Experiment(**SMALL, method="fedgkd"), data=diabetes)


def test_a_run_is_plain_least_squares_by_hand(diabetes):
    """One client with all samples and one step a round is gradient descent on ½(ŷ − y)²."""
    x = torch.from_numpy(diabetes["x_train"]).float()
    y = torch.from_numpy(diabetes["y_train"]).float()
    start = nn.Linear(10, 1)
    data = package.from_arrays(**diabetes, classes=0, mean=0.0, std=1.0)
    experiment = Experiment(task="regression", clients=1, per_round=1, rounds=3, lr=0.5, batch_size=342,
                            samples_per_client=342, method="fedavg", momentum=0.0)  # fmt: skip
    result = package.run(experiment, data=data, model=start, workers=1)
    w, b = start.weight.detach().double().T, start.bias.detach().double()
    for _ in range(3):
        error = (x.double() @ w + b).flatten() - y.double()
        w, b = w - 0.5 * (x.double().T @ error[:, None]) / 342, b - 0.5 * error.mean()
    assert torch.allclose(result.state["weight"].double().T, w, rtol=1e-4)
    left = (torch.from_numpy(diabetes["x_test"]) @ w + b).flatten().numpy() - diabetes["y_test"]
    last = result.records[-1].scores
    assert last["rmse"] == pytest.approx(math.sqrt((left**2).mean()), rel=1e-4)
    assert last["mae"] == pytest.approx(abs(left).mean(), rel=1e-4)
    spread = ((diabetes["y_test"] - diabetes["y_test"].mean()) ** 2).mean()
    assert last["r2"] == pytest.approx(1 - (left**2).mean() / spread, rel=1e-3)


def test_a_target_is_reached_from_above_and_stops_the_run(diabetes, tmp_path):
    whole = package.run(Experiment(**{**SMALL, "rounds": 12}), data=diabetes, workers=1)
    errors = [error for _, error in whole.curve]
    target = sorted(errors)[6]
    first = next(t for t, error in whole.curve if error <= target)
    assert (whole.rounds_to(target), whole.rounds_to(min(errors) / 2)) == (first, None)
    assert (whole.best_score, whole.final_model_score) == (min(errors), errors[-1])
    assert whole.final_score == pytest.approx(sum(errors[-10:]) / 10)
    assert (whole.final_accuracy, whole.experiment.target) == (None, None)
    stopping = Experiment(**{**SMALL, "rounds": 12}, target=target, stop_at_target=True)
    stopped = package.run(stopping, data=diabetes, workers=1, out=tmp_path / "run")
    assert len(stopped.records) == first
    summary = read_summary(tmp_path / "run")
    assert summary["goal"] == {"score": "rmse", "higher_is_better": False, "is_share": False}
    assert (summary["rounds_to_target"], summary["best_score"]) == (first, stopped.best_score)
    assert not [name for name in summary if "accuracy" in name]
    assert package.load_result(tmp_path / "run").goal == whole.goal
    raw = torch.from_numpy(diabetes["x_test"])
    predicted = stopped.predictor()(raw).detach().flatten().numpy()
    rmse = math.sqrt(((predicted - diabetes["y_test"]) ** 2).mean())
    assert rmse == pytest.approx(stopped.final_model_score, rel=1e-4)


def test_a_target_above_one_is_for_scores_that_are_no_share():
    assert Experiment(task="regression", target=60.0).target == 60.0
    with pytest.raises(UserError, match=r"target is 60\.0; accepted: less than or equal to 1"):
        Experiment(target=60.0)


def test_run_evaluate_and_report_on_the_command_line(fedtrip, here, file):
    ended = fedtrip("run", *OPTIONS, "--dataset", f"npz:{file}", "--target", 70, "--tensorboard", "--out", "mine")
    assert ended.code == 0, ended.err
    last = json.loads((here / "mine/metrics.jsonl").read_text().splitlines()[-1])["scores"]
    assert list(last) == ["rmse", "mae", "r2", "loss"]
    assert f"6/6 rmse {last['rmse']:.4g} loss {last['loss']:.3f}" in " ".join(ended.err.split())
    for part in ("rounds to 70 ", "final rmse", "best rmse", f"{last['rmse']:.4g}"):
        assert part in ended.out
    assert "accuracy" not in ended.out
    assert "%" not in ended.out
    told = fedtrip("evaluate", "mine").out
    assert f"rmse of the final model {last['rmse']:.4f}, mae of the final model {last['mae']:.4f}" in told
    assert json.loads(fedtrip("evaluate", "mine", "--json").out)["r2"] == last["r2"]
    assert fedtrip("report", "mine").code == 0
    page = (here / "mine/report.html").read_text()
    reached = read_summary(here / "mine")["rounds_to_target"]
    assert f"fedtrip reached rmse 70 in {reached} rounds." in page
    assert "this task has no classes" in page
    from tests.runs.test_event_files import scalars

    found = scalars(here / "mine/tensorboard")
    assert {f"test/{name}" for name in last} <= set(found)
    assert found["test/rmse"][6] == pytest.approx(last["rmse"])


def test_compare_on_the_command_line(fedtrip, here, file):
    ended = fedtrip("compare", *OPTIONS, "--dataset", f"npz:{file}", "--target", 100, "--trials", 2,
                    "--methods", "fedavg,fedtrip,scaffold", "--workers", 2, "--out", "cmp")  # fmt: skip
    assert ended.code == 0, ended.err
    for part in ("to 100", "final", "rmse", "first round with test rmse ≤ target", "Final rmse: mean of"):
        assert part in " ".join(ended.out.split())
    assert "accuracy" not in ended.out
    assert re.search(r"36/36  \w+, seed [01]: rmse \d", ended.err)  # whichever trial ended last
    rows = json.loads((here / "cmp/table.json").read_text())
    lines = list(csv.DictReader((here / "cmp/table.csv").open()))
    for row, line in zip(rows, lines, strict=True):
        runs = [package.load_result(here / f"cmp/runs/{row['variant']}/{seed}") for seed in (0, 1)]
        assert row["final_rmse"]["values"] == [run.final_score for run in runs]
        assert float(line["final_rmse_mean"]) == row["final_rmse"]["mean"]
        reached = [run.rounds_to(100) for run in runs]
        assert row["censored"] == reached.count(None)
        assert row["rounds"]["values"] == [6.0 if number is None else float(number) for number in reached]
        assert not [name for name in (*row, *line) if "accuracy" in name]
    table = (here / "cmp/table.md").read_text()
    assert "| final rmse |" in table
    assert (here / "cmp/convergence.png").stat().st_size > 1000
    page = (here / "cmp/report.html").read_text()
    assert "this task has no classes" in page
    assert "Test rmse" in page
    assert "test accuracy" not in page.split('<script type="application/octet-stream"')[0].lower()


def test_without_a_target_the_lowest_error_comes_first(diabetes, tmp_path):
    package.compare(Experiment(**SMALL), data=diabetes, out=tmp_path / "out", methods=["fedavg", "fedprox"],
                    sweeps={"lr": [0.002, 0.0005]}, trials=1, workers=1)  # fmt: skip
    rows = json.loads((tmp_path / "out/table.json").read_text())
    best = min(rows, key=lambda row: row["final_rmse"]["mean"])
    page = (tmp_path / "out/report.html").read_text()
    assert f"{best['variant']} has the lowest final rmse: {best['final_rmse']['mean']:.4g}; next is " in page


def test_a_run_without_any_score_is_not_the_best(diabetes, tmp_path):
    """An error that was never finite is no error of zero."""
    wild = Experiment(**{**SMALL, "lr": 1e6, "rounds": 2})
    package.compare(wild, data=diabetes, out=tmp_path / "out", methods=["fedavg"], trials=1, workers=1)
    (row,) = json.loads((tmp_path / "out/table.json").read_text())
    assert row["final_rmse"] is None
    assert "| none |" in (tmp_path / "out/table.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["flower-simulation"])
def test_flowers_simulation_has_the_same_bits(file, engine):
    experiment = Experiment(**{**SMALL, "rounds": 2}, dataset=f"npz:{file}")
    here, there = package.run(experiment, workers=1), package.run(experiment, engine=engine, workers=2)
    assert here.model_sha256 == there.model_sha256
    assert [record.scores for record in here.records] == [record.scores for record in there.records]


@pytest.mark.slow
def test_trials_on_ray_have_the_same_table(fedtrip, here, file):
    for engine in ("local", "ray"):
        ended = fedtrip("compare", *OPTIONS, "--dataset", f"npz:{file}", "--methods", "fedavg", "--trials", 1, "-q",
                        "--engine", engine, "--workers", 2, "--out", engine)  # fmt: skip
        assert ended.code == 0, ended.err
    assert (here / "local/table.csv").read_bytes() == (here / "ray/table.csv").read_bytes()


@dataclass(frozen=True)
class WithTopTwo(Classification):
    """a score of one's own is one method"""

    goal = Goal("top two", is_share=True)

    def sums(self, outputs, y):
        hits = (outputs.topk(2).indices == y[:, None]).any(1).sum()
        return {**super().sums(outputs, y), "top two": float(hits)}


@dataclass(frozen=True)
class Doubled(Classification):
    """a loss of one's own is the one that is trained with"""

    def loss(self, outputs, y):
        return 2 * super().loss(outputs, y)


@dataclass(frozen=True)
class WithLargest(Regression):
    """the same for regression: a mean over the samples"""

    def sums(self, outputs, y):
        return {**super().sums(outputs, y), "bias": float((outputs.reshape(-1) - y).sum())}


def test_a_score_of_ones_own_touches_one_file(blobs, diabetes):
    result = package.run(Experiment(task=WithTopTwo(), rounds=3, clients=4, per_round=2), data=blobs, workers=1)
    assert list(result.records[0].scores) == ["accuracy", "loss", "top two"]
    assert all(record.scores["top two"] >= record.scores["accuracy"] for record in result.records)
    assert result.final_score == pytest.approx(sum(r.scores["top two"] for r in result.records) / 3)
    assert result.final_accuracy is None, "the goal is another"
    measured = package.run(Experiment(**{**SMALL, "task": WithLargest()}), data=diabetes, workers=1).records[-1].scores
    assert list(measured) == ["rmse", "mae", "r2", "loss", "bias"]
    assert abs(measured["bias"]) <= measured["mae"]


def test_a_loss_of_ones_own_is_not_replaced_by_the_fast_path(blobs):
    small = {"rounds": 1, "clients": 2, "per_round": 2, "method": "fedavg", "momentum": 0.0}
    doubled = package.run(Experiment(**small, task=Doubled(), lr=0.01), data=blobs, workers=1)
    plain = package.run(Experiment(**small, lr=0.02), data=blobs, workers=1)
    for name, value in plain.state.items():
        assert torch.allclose(doubled.state[name], value, rtol=1e-4, atol=1e-6)
