"""Schedules by hand."""

import pytest

from fedtrip.families import LR_SCHEDULE


def course(rule, rounds=4):
    return [LR_SCHEDULE.make(rule)(t, rounds) for t in range(1, rounds + 1)]


def test_by_hand():
    assert course("constant") == [1.0] * 4
    assert course("exponential:0.5") == [1.0, 0.5, 0.25, 0.125]
    assert course("step:2") == pytest.approx([1.0, 1.0, 0.1, 0.1])
    assert course({"name": "step:1", "gamma": 0.5}) == [1.0, 0.5, 0.25, 0.125]
    assert course("cosine") == pytest.approx([1.0, 0.8535533906, 0.5, 0.1464466094])
    assert course("cosine:0.2")[2] == pytest.approx(0.6)
