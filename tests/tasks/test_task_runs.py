"""Every task end to end: the same bits on one worker and two and after an interruption, goals and their directions."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn

import fedtrip as package
from fedtrip import Experiment
from fedtrip.native.library import library
from fedtrip.tasks.interface import Goal, Task

SMALL = {"rounds": 4, "clients": 4, "per_round": 2, "samples_per_client": 60, "batch_size": 20, "lr": 0.05}
N, TEST = 400, 1300  # a test set of more than one block


def made(targets, inputs=6):
    """Samples of numbers, and what `targets` makes of three hidden sums of each."""
    random = np.random.default_rng(3)
    x = random.normal(size=(N + TEST, inputs)).astype(np.float32)
    y = targets(x @ random.normal(size=(inputs, 3)) + 0.3 * random.normal(size=(N + TEST, 3)))
    return {"x_train": x[:N], "y_train": y[:N], "x_test": x[N:], "y_test": y[N:]}


def text():
    """Sequences that count upwards modulo 7; of some places nothing is asked."""
    start = np.arange(N + TEST) % 7
    sequences = (start[:, None] + np.arange(6)) % 7
    y = sequences[:, 1:].copy()
    y[::3, 0] = -100
    return {"x_train": sequences[:N, :-1], "y_train": y[:N], "x_test": sequences[N:, :-1], "y_test": y[N:]}


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.answer = nn.Embedding(7, 8), nn.Linear(8, 7)

    def forward(self, tokens):
        return self.answer(self.look_up(tokens))


CASES = {
    "classification": (
        {"name": "classification", "class_weights": [1.0, 2.0, 1.0], "label_smoothing": 0.1, "focal_gamma": 1.0},
        made(lambda z: z.argmax(1)),
        None,
    ),
    "classification by auc": ({"name": "classification", "score": "auc"}, made(lambda z: z.argmax(1)), None),
    "binary": (
        {"name": "binary", "pos_weight": 2.0, "score": "auc"},
        made(lambda z: (z[:, 0] > 0.5).astype(int)),
        None,
    ),
    "multilabel": ("multilabel", made(lambda z: (z > 0).astype(int)), None),
    "regression": ("regression", made(lambda z: z[:, 0].astype(np.float32)), None),
    "regression of three": ("regression", made(lambda z: z.astype(np.float32)), None),
    "tokens": ({"name": "tokens", "score": "perplexity"}, text(), Reader),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bits_depend_neither_on_the_workers_nor_on_an_interruption(name, tmp_path):
    task, data, model = CASES[name]
    experiment = Experiment(**SMALL, task=task)
    one = package.run(experiment, data=data, model=model, workers=1)
    two = package.run(experiment, data=data, model=model, workers=2)

    def leave(record):
        if record.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        package.run(experiment, data=data, model=model, workers=1, out=tmp_path / "run", on_round=leave)
    resumed = package.run(experiment, data=data, model=model, workers=1, out=tmp_path / "run", resume=True)
    assert one.model_sha256 == two.model_sha256 == resumed.model_sha256
    scores = [[record.scores for record in run.records] for run in (one, two, resumed)]
    assert scores[0] == scores[1] == scores[2]
    first, last = scores[0][0], scores[0][-1]
    assert one.goal.better(last[one.goal.score], first[one.goal.score]), "it learns"
    if model is None and library() is not None:
        assert one.experiment.compute == "native"
    stored = package.evaluate(tmp_path / "run", data=data, model=model)
    assert stored == last
    again = Experiment.from_toml(tmp_path / "run/experiment.toml")
    assert package.run(again, data=data, model=model, workers=1).model_sha256 == one.model_sha256


@pytest.mark.parametrize("name", [name for name, (*_, model) in CASES.items() if model is None])
def test_torch_and_the_native_chain_learn_the_same(name):
    task, data, _ = CASES[name]
    if library() is None:
        pytest.skip("there is no compiled library")
    for method in ("fedavg", "scaffold"):
        fields = {**SMALL, "task": task, "method": method}
        if method == "scaffold":
            fields["method"] = {"name": "scaffold", "option": "I"}  # it takes the full gradient
        native, by_torch = (
            package.run(Experiment(**fields, compute=how), data=data, workers=1) for how in ("native", "torch")
        )
        for key, value in by_torch.state.items():
            assert torch.allclose(native.state[key], value, rtol=1e-3, atol=1e-5)
        assert native.records[-1].scores == pytest.approx(by_torch.records[-1].scores, abs=3e-3)


def test_the_scores_of_a_run_are_scikit_learns():
    task, data, _ = CASES["binary"]
    result = package.run(Experiment(**SMALL, task=task), data=data, workers=2)
    logits = result.predictor()(torch.from_numpy(data["x_test"])).detach().flatten()
    scores, y = result.records[-1].scores, data["y_test"]
    assert scores["auc"] == pytest.approx(metrics.roc_auc_score(y, logits), abs=1e-4)
    assert scores["f1"] == pytest.approx(metrics.f1_score(y, logits > 0), abs=3e-3)


def test_options_that_say_nothing_special_change_no_bit_and_no_name(blobs, tmp_path):
    usual = package.run(Experiment(**{**SMALL, "samples_per_client": 20}), data=blobs, workers=1, out=tmp_path / "a")
    said = {"name": "classification", "label_smoothing": 0.0, "focal_gamma": 0.0, "score": "accuracy"}
    same = package.run(usual.experiment.but(task=said), data=blobs, workers=1)
    assert (same.model_sha256, same.experiment) == (usual.model_sha256, usual.experiment)
    assert 'task = "classification"' in (tmp_path / "a/experiment.toml").read_text()
    scored = package.run(usual.experiment.but(task={"name": "classification", "score": "auc"}), data=blobs, workers=1)
    assert scored.model_sha256 == usual.model_sha256, "another goal trains the same model"
    kept = ("accuracy", "loss")
    assert [{k: r.scores[k] for k in kept} for r in scored.records] == [r.scores for r in usual.records]


def test_a_target_is_about_the_goal_with_its_direction():
    task, data, model = CASES["tokens"]
    whole = package.run(Experiment(**SMALL, task=task), data=data, model=model, workers=1)
    reached = dict(whole.curve)[3]
    stopping = Experiment(**SMALL, task=task, target=reached, stop_at_target=True)
    stopped = package.run(stopping, data=data, model=model, workers=1)
    assert (len(stopped.records), stopped.rounds_to(reached), stopped.final_accuracy) == (3, 3, None)


def test_a_share_as_target_is_at_most_one():
    task, data, _ = CASES["multilabel"]
    with pytest.raises(package.UserError, match=r"target is 90\.0; accepted: less than or equal to 1"):
        package.run(Experiment(**SMALL, task=task, target=90.0), data=data)


def test_details_on_the_command_line(fedtrip, here):
    ended = fedtrip("run", "--rounds", 2, "--set", "task.score=macro_f1", "--target", 0.1, "-q", "--out", "mine")
    assert ended.code == 0, ended.err
    assert "final macro_f1" in ended.out
    last = json.loads((here / "mine/metrics.jsonl").read_text().splitlines()[-1])["scores"]
    assert list(last) == ["accuracy", "balanced_accuracy", "macro_f1", "loss"]
    detailed = json.loads(fedtrip("evaluate", "mine", "--details", "--json").out)
    assert {name: detailed[name] for name in last} == last
    assert 0.5 < detailed["auc"] < 1
    assert f"macro_f1 of the final model {last['macro_f1']:.2%}" in fedtrip("evaluate", "mine").out
    assert fedtrip("report", "mine").code == 0
    page = (here / "mine/report.html").read_text()
    assert "macro_f1" in page.split("</title>")[0]
    assert "reached macro_f1 10%" in page


def test_a_list_is_one_value_on_the_command_line(fedtrip, here):
    few, many = [1.0] * 9 + [2.0], [1.0] * 9 + [8.0]
    ended = fedtrip("run", "--rounds", 1, "--set", f"task.class_weights={few}", "-q", "--out", "mine")
    assert ended.code == 0, ended.err
    assert Experiment.from_toml(here / "mine/experiment.toml").task.options == {"class_weights": few}
    swept = fedtrip("compare", "--rounds", 1, "--trials", 1, "--methods", "fedavg", "-q", "--out", "cmp",
                    "--set", f"task.class_weights={few},{many}")  # fmt: skip
    assert swept.code == 0, swept.err
    assert len(json.loads((here / "cmp/table.json").read_text())) == 2


@dataclass(frozen=True)
class Quantiles(Task):
    """the pinball loss of two quantiles: numbers as targets, and outputs of another shape"""

    title = "two quantiles"
    goal = Goal("pinball", higher_is_better=False)
    targets = "numbers"

    def outputs(self, classes):  # noqa: ARG002
        return 2

    def output_shape(self, classes, y):  # noqa: ARG002
        return None

    def summed_loss(self, outputs, y):
        error = y[:, None] - outputs.reshape(len(y), 2)
        levels = torch.tensor([0.1, 0.9])
        return torch.maximum(levels * error, (levels - 1) * error).sum()

    def sums(self, outputs, y):
        loss = float(self.summed_loss(outputs, y))
        return {"loss": loss, "pinball": loss}


class TwoByOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 2)

    def forward(self, x):
        return self.linear(x)[:, :, None]


@pytest.mark.parametrize("model", [None, TwoByOne])
def test_a_task_of_ones_own_may_take_any_outputs(model):
    data = CASES["regression"][1]
    runs = [package.run(Experiment(**SMALL, task=Quantiles()), data=data, model=model, workers=w) for w in (1, 2)]
    assert runs[0].model_sha256 == runs[1].model_sha256
    assert runs[0].records[-1].scores == runs[1].records[-1].scores
    first, last = runs[0].curve[0][1], runs[0].curve[-1][1]
    assert last < first
