"""Scores from counts and from kept values: by hand, and as scikit-learn has them."""

import math

import numpy as np
import pytest
import torch
from sklearn import metrics

from fedtrip.engines.base import added
from fedtrip.tasks._scores import auc, balanced_accuracy, confusion_matrix, macro_auc, macro_f1, mean_f1
from fedtrip.tasks.interface import Kept

CONFUSION = np.array([[3, 1, 0], [0, 2, 2], [0, 0, 0]])
"""four samples of class 0, four of class 1, none of class 2"""


def test_the_area_by_hand_with_ties():
    """Positives 0.9, 0.5 and 0.5; negatives 0.5 and 0.1: of six pairs four are won and two are even."""
    scores = np.array([0.9, 0.5, 0.5, 0.5, 0.1])
    assert auc(scores, np.array([True, True, False, True, False])) == (4 + 2 * 0.5) / 6


def test_the_area_without_one_of_the_two_or_with_no_number_is_none():
    assert math.isnan(auc(np.array([0.2, 0.3]), np.array([True, True])))
    assert math.isnan(auc(np.array([0.2, 0.3]), np.array([False, False])))
    assert math.isnan(auc(np.array([0.2, np.nan]), np.array([True, False])))


def test_means_over_classes_by_hand():
    assert balanced_accuracy(CONFUSION) == (3 / 4 + 2 / 4) / 2, "class 2 has no samples"
    assert macro_f1(CONFUSION) == pytest.approx((6 / 7 + 4 / 7 + 0) / 3), "class 2 was predicted, and wrong"
    assert macro_f1(CONFUSION[:2, :2]) == pytest.approx((6 / 7 + 4 / 5) / 2)
    assert mean_f1(np.array([1, 0]), np.array([0, 0]), np.array([1, 0])) == pytest.approx(2 / 3), "0/0 is left out"


def test_rows_are_classes_and_columns_what_was_predicted():
    matrix = confusion_matrix(torch.tensor([0, 0, 2]), torch.tensor([1, 0, 1]), 3)
    assert matrix.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("seed", range(5))
def test_as_scikit_learn(seed):
    random = np.random.default_rng(seed)
    y, predicted = random.integers(0, 4, 60), random.integers(0, 4, 60)
    matrix = confusion_matrix(torch.from_numpy(y), torch.from_numpy(predicted), 4)
    assert (matrix == metrics.confusion_matrix(y, predicted)).all()
    assert balanced_accuracy(matrix) == pytest.approx(metrics.balanced_accuracy_score(y, predicted))
    assert macro_f1(matrix) == pytest.approx(metrics.f1_score(y, predicted, average="macro"))
    coarse = random.integers(0, 6, 60) / 6  # many ties
    assert auc(coarse, y == 0) == pytest.approx(metrics.roc_auc_score(y == 0, coarse))
    table, labels = random.normal(size=(60, 3)), random.random((60, 3)) > 0.4
    assert macro_auc(table, labels) == pytest.approx(metrics.roc_auc_score(labels, table, average="macro"))


def test_kept_values_stay_in_the_order_of_the_blocks_and_arrays_are_added():
    blocks = [
        {"kept": Kept.of(torch.tensor([start, start + 1.0])), "counts": np.array([start, 1])} for start in (4, 0, 2)
    ]
    total = added(blocks)
    assert total["kept"].values.tolist() == [4, 5, 0, 1, 2, 3]
    assert total["counts"].tolist() == [6, 3]
    assert blocks[0]["counts"].tolist() == [4, 1], "the first block is as it was"
