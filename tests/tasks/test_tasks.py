"""Tasks: losses and scores by hand, sums that are added in blocks, gradients against autograd and differences."""

import math

import pytest
import torch
from sklearn import metrics
from torch.nn import functional

from fedtrip.engines.base import added
from fedtrip.families import TASK
from fedtrip.tasks.classification import Classification
from fedtrip.tasks.interface import has_closed_gradient
from fedtrip.tasks.regression import Regression


def scored(task, outputs, y, block):
    """The scores of all samples from the sums of their blocks."""
    blocks = zip(outputs.split(block), y.split(block), strict=True)
    return task.scores(added(task.sums(part, goal) for part, goal in blocks), len(y))


def drawn(*shape, seed=0):
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_classification_by_hand():
    task = TASK.make("classification")
    outputs = torch.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    y = torch.tensor([0, 1, 1])
    scores = scored(task, outputs, y, block=2)
    assert list(scores) == ["accuracy", "loss"]
    assert scores["accuracy"] == 2 / 3
    by_hand = (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-3)) + math.log(1 + math.e)) / 3
    assert scores["loss"] == pytest.approx(by_hand, rel=1e-6)
    assert float(task.loss(outputs, y)) == pytest.approx(by_hand, rel=1e-6)
    assert float(task.summed_loss(outputs, y)) == pytest.approx(3 * by_hand, rel=1e-6)
    assert task.goal.reaches(0.9, 0.9)
    assert not task.goal.reaches(0.89, 0.9)


def test_class_weights_smoothing_and_focal_loss_by_hand():
    """Three samples with p = (¾, ¼): z = (log 3, 0)."""
    outputs, y = torch.tensor([[math.log(3), 0.0]] * 3), torch.tensor([0, 0, 1])
    first, second = -math.log(3 / 4), -math.log(1 / 4)
    for options, expected in (
        ({"class_weights": (1.0, 3.0)}, (2 * first + 3 * second) / 5),
        ({"label_smoothing": 0.2}, (2 * (0.9 * first + 0.1 * second) + (0.1 * first + 0.9 * second)) / 3),
        ({"focal_gamma": 2.0}, (2 * first / 16 + second * 9 / 16) / 3),
        (
            {"class_weights": (1.0, 3.0), "label_smoothing": 0.2, "focal_gamma": 2.0},
            (2 * (0.9 * first / 16 + 0.1 * 3 * second * 9 / 16) + (0.1 * first / 16 + 0.9 * 3 * second * 9 / 16)) / 5,
        ),
    ):
        task = TASK.make({"name": "classification", **options})
        assert float(task.loss(outputs, y)) == pytest.approx(expected, rel=1e-5), options
        assert scored(task, outputs, y, block=1)["loss"] == pytest.approx(expected, rel=1e-6), options
        assert float(task.summed_loss(outputs, y)) == pytest.approx(expected * task.count(y), rel=1e-5), options


def test_weights_and_smoothing_are_torchs():
    outputs, y, weights = drawn(9, 4), torch.arange(9) % 4, (1.0, 2.0, 0.5, 3.0)
    task = TASK.make({"name": "classification", "class_weights": list(weights), "label_smoothing": 0.1})
    theirs = functional.cross_entropy(outputs, y, weight=torch.tensor(weights), label_smoothing=0.1)
    assert torch.allclose(task.loss(outputs, y), theirs)


def test_further_scores_of_classification_are_scikit_learns():
    outputs, y = drawn(50, 3), torch.arange(50) % 3
    task = TASK.make({"name": "classification", "details": True})
    scores = scored(task, outputs, y, block=7)
    assert list(scores) == ["accuracy", "balanced_accuracy", "macro_f1", "auc", "loss"]
    predicted, p = outputs.argmax(1), outputs.double().softmax(1)
    assert scores["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, predicted))
    assert scores["macro_f1"] == pytest.approx(metrics.f1_score(y, predicted, average="macro"))
    assert scores["auc"] == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))
    plain = scored(TASK.make("classification"), outputs, y, block=7)
    assert {name: scores[name] for name in plain} == plain
    assert TASK.make("classification").in_detail() == task


@pytest.mark.parametrize("score", ["accuracy", "balanced_accuracy", "macro_f1", "auc"])
def test_the_goal_follows_the_option(score):
    task = TASK.make({"name": "classification", "score": score})
    assert task.goal.score == score
    assert score in scored(task, drawn(6, 3), torch.arange(6) % 3, block=4)


def test_binary_by_hand():
    """Logits of the ones 2, 0 and −1, of the zeros −1 and 1: of six pairs three are won and one is even."""
    outputs, y = torch.tensor([[2.0], [-1.0], [0.0], [1.0], [-1.0]]), torch.tensor([1, 0, 1, 0, 1])
    scores = scored(TASK.make("binary"), outputs, y, block=2)
    assert list(scores) == ["accuracy", "balanced_accuracy", "f1", "auc", "loss"]
    assert scores["accuracy"] == 2 / 5, "a logit of 0 is no 1"
    assert scores["balanced_accuracy"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert scores["f1"] == 2 / (2 + 1 + 2)
    assert scores["auc"] == (3 + 0.5) / 6
    ones, zeros = [2.0, 0.0, -1.0], [-1.0, 1.0]
    for weight in (1.0, 3.0):
        task = TASK.make({"name": "binary", "pos_weight": weight})
        by_hand = weight * sum(math.log(1 + math.exp(-z)) for z in ones) + sum(math.log(1 + math.exp(z)) for z in zeros)
        for shaped in (outputs, outputs.flatten()):
            assert float(task.loss(shaped, y)) == pytest.approx(by_hand / 5, rel=1e-6)
            assert scored(task, shaped, y, block=2)["loss"] == pytest.approx(by_hand / 5, rel=1e-9)
            assert task.predicted_classes(shaped).tolist() == [1, 0, 0, 1, 0]
    assert TASK.make({"name": "binary", "score": "auc"}).goal.score == "auc"


def test_multilabel_by_hand():
    """Three samples with two labels; label 0 has TP 1, FP 1, FN 0, label 1 TP 1, FP 0, FN 1."""
    outputs = torch.tensor([[1.0, 2.0], [3.0, -1.0], [-2.0, -1.0]])
    y = torch.tensor([[True, True], [False, True], [False, False]])
    task = TASK.make("multilabel")
    scores = scored(task, outputs, y, block=2)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert scores["macro_auc"] == (1 / 2 + 1.5 / 2) / 2
    assert scores["accuracy"] == 4 / 6
    assert scores["exact_match"] == 2 / 3
    by_hand = sum(math.log(1 + math.exp(z)) for z in (-1, -2, 3, 1, -2, -1)) / 6
    assert scores["loss"] == pytest.approx(by_hand, rel=1e-9)
    assert float(task.loss(outputs, y)) == pytest.approx(by_hand, rel=1e-6), "the mean over labels, too"
    assert (task.goal.score, task.output_shape(2, y)) == ("macro_f1", (2,))


def test_tokens_by_hand():
    """Four places, one of which does not count: the model gives y ¾, ¼ and ¾."""
    right, wrong = [math.log(3), 0.0], [0.0, math.log(3)]
    outputs = torch.tensor([[right, wrong], [wrong, right]])
    y = torch.tensor([[0, 0], [-100, 0]])
    task = TASK.make("tokens")
    by_hand = -(math.log(3 / 4) + math.log(1 / 4) + math.log(3 / 4)) / 3
    scores = scored(task, outputs, y, block=1)
    assert scores["accuracy"] == 2 / 3
    assert scores["loss"] == pytest.approx(by_hand, rel=1e-6)
    assert scores["perplexity"] == pytest.approx(math.exp(by_hand), rel=1e-6)
    assert float(task.loss(outputs, y)) == pytest.approx(by_hand, rel=1e-6)
    assert (task.output_shape(2, y), task.count(y)) == ((2, 2), 3)
    leaf = outputs.clone().requires_grad_()
    nothing = task.loss(leaf, torch.full((2, 2), -100))
    nothing.backward()
    assert (nothing.item(), leaf.grad.abs().max()) == (0.0, 0.0)
    goal = TASK.make({"name": "tokens", "score": "perplexity"}).goal
    assert goal.reaches(2.0, 3.0)
    assert not goal.reaches(4.0, 3.0)


def test_regression_by_hand():
    task = TASK.make("regression")
    outputs, y = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([1.0, 4.0, 4.0])
    scores = scored(task, outputs, y, block=2)
    assert scores["rmse"] == pytest.approx(math.sqrt(5 / 3))
    assert scores["mae"] == pytest.approx(1.0)
    assert scores["r2"] == pytest.approx(1 - 5 / 6)
    assert scores["loss"] == pytest.approx(5 / 6)
    assert task.goal.reaches(1.0, 1.0)
    assert not task.goal.reaches(1.1, 1.0)
    assert task.goal.better(0.9, 1.0)


def test_regression_of_several_numbers_by_hand():
    """Errors 0, 1 | 2, −1 | 0, 0; the first numbers are 1, 2, 3, the second 10, 30, 20."""
    y = torch.tensor([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])
    outputs = y + torch.tensor([[0.0, 1.0], [2.0, -1.0], [0.0, 0.0]])
    task = TASK.make("regression")
    scores = scored(task, outputs, y, block=2)
    assert scores["rmse"] == pytest.approx(1.0)
    assert scores["mae"] == pytest.approx(4 / 6)
    assert scores["loss"] == pytest.approx(0.5)
    assert scores["r2"] == pytest.approx(1 - 6 / 202), "each number about its own mean"
    assert scores["r2"] == pytest.approx(metrics.r2_score(y, outputs, multioutput="variance_weighted"))
    assert float(task.loss(outputs, y)) == pytest.approx(0.5)
    assert task.output_shape(0, y) == (2,)


def test_regressions_step_is_the_gradient_of_half_the_squared_error():
    task, outputs = TASK.make("regression"), torch.tensor([[1.0], [2.0]], requires_grad=True)
    task.loss(outputs, torch.tensor([0.0, 4.0])).backward()
    assert outputs.grad.flatten().tolist() == [0.5, -1.0]


def test_classifications_loss_is_torchs():
    task = TASK.make("classification")
    logits, y = drawn(9, 4), torch.arange(9) % 4
    assert torch.equal(task.loss(logits, y), functional.cross_entropy(logits, y))


WITH_GRADIENT = {
    "regression": ({"name": "regression"}, drawn(6, 1), drawn(6, seed=1)),
    "of several numbers": ({"name": "regression"}, drawn(6, 3), drawn(6, 3, seed=1)),
    "binary": ({"name": "binary"}, drawn(6, 1), torch.arange(6) % 2),
    "binary, weighted": ({"name": "binary", "pos_weight": 2.5}, drawn(6, 1), torch.arange(6) % 2),
    "multilabel": ({"name": "multilabel"}, drawn(6, 3), drawn(6, 3, seed=1) > 0),
    **{
        f"weights {weights}, smoothing {smoothing}, gamma {gamma}": (
            {
                "name": "classification",
                "class_weights": weights,
                "label_smoothing": smoothing,
                "focal_gamma": gamma,
            },
            drawn(6, 3),
            torch.arange(6) % 3,
        )
        for weights in (None, [0.5, 2.0, 1.0])
        for smoothing in (0.0, 0.2)
        for gamma in (0.0, 0.5, 2.0)
    },
}


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_the_closed_gradient_is_autograds(name):
    options, outputs, y = WITH_GRADIENT[name]
    task, leaf = TASK.make(options), outputs.clone().requires_grad_()
    assert has_closed_gradient(task)
    task.summed_loss(leaf, y).backward()
    closed = task.summed_gradient(outputs, y)
    assert (closed.dtype, closed.shape) == (torch.float32, outputs.shape)
    assert torch.allclose(closed, leaf.grad, rtol=1e-4, atol=1e-6)
    if options["name"] == "regression":
        assert torch.equal(closed, leaf.grad), "these had the same bits before there was a closed form"


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_the_closed_gradient_is_that_of_the_scored_loss(name):
    """Finite differences in float64, through other code than autograd's."""
    options, outputs, y = WITH_GRADIENT[name]
    task, h, found = TASK.make(options), 1e-6, torch.zeros(outputs.shape, dtype=torch.float64)
    for place in range(outputs.numel()):
        moved = [outputs.double(), outputs.double()]
        for sign, copy in zip((1, -1), moved, strict=True):
            copy.view(-1)[place] += sign * h
        high, low = (task.sums(copy, y)["loss"] for copy in moved)
        found.view(-1)[place] = (high - low) / (2 * h)
    assert torch.allclose(task.summed_gradient(outputs, y).double(), found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_a_sample_that_is_surely_right_has_a_finite_focal_gradient(gamma):
    task = Classification(focal_gamma=gamma)
    outputs, y = torch.tensor([[200.0, -200.0], [0.0, 40.0]]), torch.tensor([0, 1])
    leaf = outputs.clone().requires_grad_()
    task.loss(leaf, y).backward()
    assert torch.isfinite(leaf.grad).all()
    assert task.summed_gradient(outputs, y).abs().max() < 1e-6


def test_a_closed_gradient_counts_only_for_the_loss_that_it_was_written_for():
    class OtherLoss(Regression):
        def summed_loss(self, outputs, y):
            return 2 * super().summed_loss(outputs, y)

    class OtherCount(Regression):
        def count(self, y):
            return 2 * len(y)

    class OtherScores(Regression):
        def sums(self, outputs, y):
            return super().sums(outputs, y)

    found = [has_closed_gradient(task()) for task in (Regression, OtherLoss, OtherCount, OtherScores)]
    assert found == [True, False, False, True]
    assert not has_closed_gradient(TASK.make("tokens"))
