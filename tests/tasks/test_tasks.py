"""Tasks: scores by hand, sums that may be added in blocks, losses against autograd, targets with a direction."""

import math

import pytest
import torch
from torch.nn import functional

from fedtrip.errors import UserError
from fedtrip.families import TASK


def added(task, outputs, y, block):
    """The scores of all samples from the sums of their blocks."""
    total = {}
    for part, goal in zip(outputs.split(block), y.split(block), strict=True):
        for name, value in task.sums(part, goal).items():
            total[name] = total.get(name, 0) + value
    return task.scores(total, len(y))


def test_classification_by_hand():
    task = TASK.make("classification")
    outputs = torch.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    y = torch.tensor([0, 1, 1])
    scores = added(task, outputs, y, block=2)
    assert scores["accuracy"] == 2 / 3
    by_hand = (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-3)) + math.log(1 + math.e)) / 3
    assert scores["loss"] == pytest.approx(by_hand, rel=1e-6)
    assert float(task.loss(outputs, y)) == pytest.approx(by_hand, rel=1e-6)
    assert float(task.summed_loss(outputs, y)) == pytest.approx(3 * by_hand, rel=1e-6)
    assert task.goal.reaches(0.9, 0.9)
    assert not task.goal.reaches(0.89, 0.9)


def test_regression_by_hand():
    task = TASK.make("regression")
    outputs, y = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([1.0, 4.0, 4.0])
    scores = added(task, outputs, y, block=2)
    assert scores["rmse"] == pytest.approx(math.sqrt(5 / 3))
    assert scores["mae"] == pytest.approx(1.0)
    assert scores["r2"] == pytest.approx(1 - 5 / 6)
    assert scores["loss"] == pytest.approx(5 / 6)
    assert task.goal.reaches(1.0, 1.0)
    assert not task.goal.reaches(1.1, 1.0)
    assert task.goal.better(0.9, 1.0)


def test_regressions_step_is_the_gradient_of_half_the_squared_error():
    task, outputs = TASK.make("regression"), torch.tensor([[1.0], [2.0]], requires_grad=True)
    task.loss(outputs, torch.tensor([0.0, 4.0])).backward()
    assert outputs.grad.flatten().tolist() == [0.5, -1.0]


def test_classifications_loss_is_torchs():
    task = TASK.make("classification")
    logits, y = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
    assert torch.equal(task.loss(logits, y), functional.cross_entropy(logits, y))


@pytest.mark.parametrize(
    ("name", "y", "fits"),
    [("classification", torch.tensor([0.5]), "regression"), ("regression", torch.tensor([1]), "classification")],
)
def test_targets_of_another_task_are_refused_with_the_one_that_fits(name, y, fits):
    with pytest.raises(UserError, match=f"task '{name}'.*{fits}"):
        TASK.make(name).check(y)
